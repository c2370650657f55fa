import { isRecord, isWhole, settleOptions, urlOf, wrongOption } from '@locks/core/adapter'
import type { Client } from 'node-zookeeper-client'
import { invalid } from './errors.ts'
import { declared } from './option-table.ts'
import type { ZookeeperAclEntry, ZookeeperAuth } from './option-table.ts'
import { isPath } from './paths.ts'
import { parseUrl } from './url.ts'

/** Options with every default filled in. */
export interface Settings {
  readonly client: Client | undefined
  readonly servers: string
  readonly auth: readonly ZookeeperAuth[]
  readonly acl: 'open' | 'creator' | readonly ZookeeperAclEntry[]
  readonly sessionTimeoutMs: number
  readonly basePath: string
  readonly rawPath: boolean
}

/** Checks what a program, a config or a URL asks for. No message shows a value, which may be secret. */
export function settle(options: unknown): Settings {
  const url = urlOf(declared, options)
  const parsed = url === undefined ? undefined : parseUrl(url)
  const read = settleOptions(declared, options, parsed?.extra)
  const { client, sessionTimeoutMs, basePath, rawPath } = read
  if (client !== undefined && !isClient(client)) throw wrongOption(declared, 'client', client)
  if (!isPath(basePath)) throw wrongOption(declared, 'basePath')
  const auth = checkAuth(read.auth)
  const acl = read.acl ?? (auth.length > 0 ? 'creator' : 'open')
  if (!isAcl(acl)) throw wrongOption(declared, 'acl')
  const servers = client === undefined ? checkServers(parsed?.servers ?? read.servers ?? '') : ''
  return { client, servers, auth, acl, sessionTimeoutMs, basePath, rawPath }
}

function checkServers(servers: string): string {
  if (!/^[\w.-]+(:\d{1,5})?(,[\w.-]+(:\d{1,5})?)*(\/|$)/.test(servers)) throw wrongOption(declared, 'servers')
  // The library connects later, when nobody could catch what that throws.
  for (const [, port] of servers.replace(/\/.*/, '').matchAll(/:(\d+)/g))
    if (Number(port) < 1 || Number(port) > 65_535)
      throw invalid('the ports of servers must be from 1 to 65535')
  const slash = servers.indexOf('/')
  if (slash >= 0 && slash < servers.length - 1 && !isPath(servers.slice(slash)))
    throw invalid('the chroot of servers must be an absolute ZooKeeper path')
  return servers
}

function checkAuth(auth: unknown): readonly ZookeeperAuth[] {
  const list: readonly unknown[] = auth === undefined ? [] : Array.isArray(auth) ? auth : [auth]
  return list.map((one) => {
    if (!isAuth(one)) throw wrongOption(declared, 'auth')
    return one
  })
}

function isAuth(value: unknown): value is ZookeeperAuth {
  return isRecord(value) && isText(value['scheme']) && isText(value['credentials'])
}

function isAcl(value: unknown): value is Settings['acl'] {
  if (value === 'open' || value === 'creator') return true
  return Array.isArray(value) && value.length > 0 && value.every(isAclEntry)
}

function isAclEntry(value: unknown): value is ZookeeperAclEntry {
  if (!isRecord(value) || !isText(value['scheme']) || typeof value['id'] !== 'string') return false
  return isWhole(value['permissions'], [1, 31])
}

function isClient(value: unknown): value is Client {
  const methods = ['getState', 'getSessionTimeout', 'create', 'remove', 'getData', 'transaction', 'on']
  if (typeof value !== 'object' || value === null || !('connectionManager' in value)) return false
  return methods.every((method) => typeof Reflect.get(value, method) === 'function')
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}
