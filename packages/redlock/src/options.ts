import { isRecord, plainUrl, queryOptions, settleOptions, urlOf, wrongOption } from '@locks/core/adapter'
import type { RedisOptions } from '@locks/redis'
import { errors } from './errors.ts'
import { declared } from './option-table.ts'

export interface RedlockSettings {
  readonly nodes: readonly RedisOptions[]
  readonly quorum: number
  readonly nodeTimeoutMs: number
  readonly fencing: boolean
}

export function settle(options: unknown): RedlockSettings {
  const url = urlOf(declared, options)
  const parsed = url === undefined ? undefined : parseUrl(url)
  const read = settleOptions(declared, options, parsed?.extra)
  const nodes = parsed?.nodes ?? read.nodes
  if (!Array.isArray(nodes) || nodes.length === 0) throw wrongOption(declared, 'nodes')
  if (nodes.some((node, index) => nodes.slice(0, index).some((other) => isSame(node, other))))
    throw errors.invalid('a server is named twice: its vote would count twice')
  const majority = Math.floor(nodes.length / 2) + 1
  const { quorum = majority, nodeTimeoutMs, fencing, prefix, fenceIdleMs } = read
  // Two groups smaller than a majority could each hold the lock.
  if (quorum < majority || quorum > nodes.length)
    throw errors.invalid(`quorum must be a whole number from ${majority} to ${nodes.length}`)
  return {
    nodes: nodes.map((node: unknown) => nodeOf(node, prefix, fenceIdleMs)),
    quorum,
    nodeTimeoutMs,
    fencing,
  }
}

function nodeOf(node: unknown, prefix: string | undefined, fenceIdleMs: number | undefined): RedisOptions {
  const idle = fenceIdleMs === undefined ? {} : { fenceIdleMs }
  if (typeof node === 'string') return { url: node, ...(prefix !== undefined && { prefix }), ...idle }
  if (!isRecord(node)) throw errors.invalid('every node must be a URL or options as for @locks/redis')
  if (node['waitForReplicas'] !== undefined)
    throw errors.invalid('waitForReplicas is not for nodes: what counts is the majority')
  const own = typeof node['prefix'] === 'string' ? node['prefix'] : ''
  return { ...node, ...(prefix !== undefined && { prefix: prefix + own }), ...idle }
}

function isSame(one: unknown, other: unknown): boolean {
  if (!isRecord(one) || !isRecord(other)) return one === other
  const [a, b] = [one['connection'], other['connection']]
  if (isRecord(a) && isRecord(b) && a['host'] !== undefined)
    return ['host', 'port', 'db'].every((key) => a[key] === b[key])
  return ['client', 'url'].some((key) => one[key] !== undefined && one[key] === other[key])
}

interface ParsedUrl {
  readonly nodes: readonly string[]
  readonly extra: Readonly<Record<string, unknown>>
}

function parseUrl(url: string): ParsedUrl {
  const [, servers = '', query = ''] = /^redlock:([^?#]+)(?:\?([^#]*))?$/.exec(plainUrl(url)) ?? []
  // What follows may be another server, which would then have no vote.
  if (/[,?]/.test(query))
    throw errors.invalid(
      'options in url stand once, behind the last server: redlock:redis://a,redis://b,redis://c?prefix=x; ' +
        'write %2C and %3F for a comma and a question mark in a value',
    )
  return { nodes: nodesOf(servers), extra: queryOptions(declared, new URLSearchParams(query)) }
}

/** Addresses alone, or whole URLs where servers differ in more than that. */
function nodesOf(servers: string): readonly string[] {
  const urls = servers.split(',')
  if (urls.every((url) => /^rediss?:\/\/[^/]/i.test(url))) return urls
  const match = /^\/\/((?:[^@/]*@)?)([^@/]+)(\/.*)?$/.exec(servers)
  if (match === null) throw wrongOption(declared, 'url')
  const [, login = '', hosts = '', db = ''] = match
  return hosts.split(',').map((host) => `redis://${login}${host}${db}`)
}
