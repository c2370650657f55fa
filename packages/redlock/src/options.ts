import { fenceIdleOf, LockError, plainUrl, toMs } from '@locks/core'
import type { Duration } from '@locks/core'
import type { RedisOptions } from '@locks/redis'

/** Independent servers, none a replica of another, and how many of them must agree. */
export interface RedlockOptions {
  /** Three, five or any number of independent primaries, by URL or as for `@locks/redis`. */
  readonly nodes?: readonly (string | RedisOptions)[]
  /** `redlock://[user:password@]host:port,host:port,…[/db]` or `redlock:redis://…,redis://…`. */
  readonly url?: string
  /** In front of every lock name, and of a node's own prefix. Default: the nodes' own, which is `locks:` by default. */
  readonly prefix?: string
  /** How many nodes must agree: a majority unless told, and never less. */
  readonly quorum?: number
  /** How long a node may be silent before it counts as failed: 1 s unless told. */
  readonly nodeTimeoutMs?: Duration
  /** `false` saves the round trip that makes fences rise across majorities. */
  readonly fencing?: boolean
  /** After so long without a grant a node drops the fence of a name, as in `@locks/redis`. Default: the nodes' own. */
  readonly fenceIdleMs?: Duration
}

export interface RedlockSettings {
  readonly nodes: readonly RedisOptions[]
  readonly quorum: number
  readonly nodeTimeoutMs: number
  readonly fencing: boolean
}

const known = ['nodes', 'url', 'prefix', 'quorum', 'nodeTimeoutMs', 'fencing', 'fenceIdleMs']
const inUrl = ['prefix', 'quorum', 'nodeTimeoutMs', 'fencing', 'fenceIdleMs']
const form = 'redlock://[user:password@]host:port,host:port,…[/db] or redlock:redis://…,redis://…'

export function settle(options: unknown): RedlockSettings {
  if (!isRecord(options))
    throw invalid("options must be an object, such as { nodes: ['redis://a', 'redis://b', 'redis://c'] }")
  for (const key of Object.keys(options))
    if (!known.includes(key)) throw invalid(`unknown key ${JSON.stringify(key)}; known: ${known.join(', ')}`)
  if ((options['nodes'] === undefined) === (options['url'] === undefined))
    throw invalid('exactly one of nodes, url must be given')
  const all = options['url'] === undefined ? options : { ...options, ...fromUrl(options['url']) }
  const { nodes, prefix, fencing = true } = all
  if (!Array.isArray(nodes) || nodes.length === 0) throw invalid('nodes must be a list of servers')
  if (prefix !== undefined && typeof prefix !== 'string') throw invalid('prefix must be a string')
  if (typeof fencing !== 'boolean') throw invalid('fencing must be true or false')
  if (nodes.some((node, index) => nodes.slice(0, index).some((other) => isSame(node, other))))
    throw invalid('a server is named twice: its vote would count twice')
  const fenceIdleMs = all['fenceIdleMs'] === undefined ? undefined : fenceIdleOf(all['fenceIdleMs'], invalid)
  const majority = Math.floor(nodes.length / 2) + 1
  return {
    nodes: nodes.map((node: unknown) => nodeOf(node, prefix, fenceIdleMs)),
    // Two groups smaller than a majority could each believe to hold the lock.
    quorum: integer('quorum', all['quorum'] ?? majority, majority, nodes.length),
    nodeTimeoutMs: integer('nodeTimeoutMs', toMs(all['nodeTimeoutMs'] ?? 1_000), 10, 60_000),
    fencing,
  }
}

function nodeOf(node: unknown, prefix: string | undefined, fenceIdleMs: number | undefined): RedisOptions {
  const idle = fenceIdleMs === undefined ? {} : { fenceIdleMs }
  if (typeof node === 'string') return { url: node, ...(prefix !== undefined && { prefix }), ...idle }
  if (!isRecord(node)) throw invalid('every node must be a URL or options as for @locks/redis')
  if (node['waitForReplicas'] !== undefined)
    throw invalid('waitForReplicas is not for nodes: what counts is the majority')
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

function fromUrl(url: unknown): Record<string, unknown> {
  const match = typeof url === 'string' ? /^redlock:([^?#]+)(?:\?([^#]*))?$/i.exec(plainUrl(url)) : null
  const [, servers = '', query = ''] = match ?? []
  const found: Record<string, unknown> = { nodes: nodesOf(servers) }
  for (const [key, value] of new URLSearchParams(query)) {
    if (!inUrl.includes(key))
      throw invalid(`url: unknown key ${JSON.stringify(key)}; known: ${inUrl.join(', ')}`)
    found[key] = key === 'prefix' ? value : key === 'fencing' ? booleanOf(value) : Number(value)
  }
  return found
}

/** Addresses alone, or whole URLs where servers differ in more than that. */
function nodesOf(servers: string): readonly string[] {
  const urls = servers.split(',')
  if (urls.every((url) => /^rediss?:\/\/[^/]/i.test(url))) return urls
  const match = /^\/\/((?:[^@/]*@)?)([^@/]+)(\/.*)?$/.exec(servers)
  if (match === null) throw invalid(`url must be ${form}`)
  const [, login = '', hosts = '', db = ''] = match
  return hosts.split(',').map((host) => `redis://${login}${host}${db}`)
}

function booleanOf(value: string): unknown {
  return value === 'true' ? true : value === 'false' ? false : value
}

function integer(key: string, value: unknown, min: number, max: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max)
    throw invalid(`${key} must be a whole number from ${min} to ${max}`)
  return value
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function invalid(message: string): LockError {
  return new LockError('LOCK_INVALID_ARGUMENT', `@locks/redlock: ${message}`)
}
