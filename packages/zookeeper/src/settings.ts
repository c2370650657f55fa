import { queryOptions, settleOptions, urlDecoded, urlOf, urlParts, wrongOption } from '@locks/core/adapter'
import type { Settled } from '@locks/core/adapter'
import type { Client } from 'node-zookeeper-client'
import { errors } from './errors.ts'
import { declared } from './option-table.ts'
import type { Acl, ZookeeperAuth } from './option-table.ts'
import { isPath } from './paths.ts'

/** Options with every default filled in. */
export interface Settings extends Omit<Settled<typeof declared.options>, 'url'> {
  readonly client: Client | undefined
  readonly servers: string
  readonly auth: readonly ZookeeperAuth[]
  readonly acl: Acl
}

/** Checks what a program, a config or a URL asks for. No message shows a value, which may be secret. */
export function settle(options: unknown): Settings {
  const url = urlOf(declared, options)
  const parsed = url === undefined ? undefined : parseUrl(url)
  const { url: _, ...read } = settleOptions(declared, options, parsed?.extra)
  const { client } = read
  if (client !== undefined && !isClient(client)) throw wrongOption(declared, 'client', client)
  if (!isPath(read.basePath)) throw wrongOption(declared, 'basePath')
  const auth = read.auth === undefined ? [] : 'scheme' in read.auth ? [read.auth] : read.auth
  const acl = read.acl ?? (auth.length > 0 ? 'creator' : 'open')
  const servers = client === undefined ? checkServers(parsed?.servers ?? read.servers ?? '') : ''
  return { ...read, client, servers, auth, acl }
}

interface ParsedUrl {
  readonly servers: string
  /** Options of the adapter: those behind the question mark, and the user as `auth`. */
  readonly extra: Readonly<Record<string, unknown>>
}

function parseUrl(url: string): ParsedUrl {
  const { scheme, user, hosts, path, query } = urlParts(declared, url)
  if (scheme !== 'zookeeper') throw wrongOption(declared, 'url')
  const servers = `${hosts.join(',')}${path === '/' ? '' : urlDecoded(declared, path)}`
  const extra = queryOptions(declared, query)
  if (user === undefined) return { servers, extra }
  return { servers, extra: { ...extra, auth: { scheme: 'digest', credentials: urlDecoded(declared, user) } } }
}

function checkServers(servers: string): string {
  if (!/^[\w.-]+(:\d{1,5})?(,[\w.-]+(:\d{1,5})?)*(\/|$)/.test(servers)) throw wrongOption(declared, 'servers')
  // The library connects later, when nobody could catch what that throws.
  for (const [, port] of servers.replace(/\/.*/, '').matchAll(/:(\d+)/g))
    if (Number(port) < 1 || Number(port) > 65_535)
      throw errors.invalid('the ports of servers must be from 1 to 65535')
  const slash = servers.indexOf('/')
  if (slash >= 0 && slash < servers.length - 1 && !isPath(servers.slice(slash)))
    throw errors.invalid('the chroot of servers must be an absolute ZooKeeper path')
  return servers
}

function isClient(value: unknown): value is Client {
  const methods = ['getState', 'getSessionTimeout', 'create', 'remove', 'getData', 'transaction', 'on']
  if (typeof value !== 'object' || value === null || !('connectionManager' in value)) return false
  return methods.every((method) => typeof Reflect.get(value, method) === 'function')
}
