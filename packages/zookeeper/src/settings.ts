import { toMs, whatIs } from '@locks/core'
import type { Client } from 'node-zookeeper-client'
import { invalid } from './errors.ts'
import type { ZookeeperAclEntry, ZookeeperAuth } from './options.ts'
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

const known = ['url', 'servers', 'client', 'auth', 'acl', 'sessionTimeoutMs', 'basePath', 'rawPath']

/** Checks what a program, a config file or a URL asks for. No message shows a value that may be secret. */
export function settle(given: Readonly<Record<string, unknown>>): Settings {
  if (typeof given !== 'object' || given === null)
    throw invalid("options must be an object, such as { url: 'zookeeper://host' }")
  for (const key of Object.keys(given))
    if (!known.includes(key)) throw invalid(`unknown key ${JSON.stringify(key)}; known: ${known.join(', ')}`)
  const { url, ...rest } = given
  const options = url === undefined ? rest : { ...parseUrl(url), ...withoutServers(rest) }
  const { servers, client, auth, basePath = '/locks', rawPath = false } = options
  const sessionTimeoutMs = toMs(options['sessionTimeoutMs'] ?? 30_000)
  if ((servers === undefined) === (client === undefined)) throw invalid('give one of url, servers and client')
  if (client !== undefined && !isClient(client))
    throw invalid(`client must be a client of node-zookeeper-client, not ${whatIs(client)}`)
  if (client !== undefined && (auth !== undefined || 'sessionTimeoutMs' in options))
    throw invalid('auth and sessionTimeoutMs are those of the given client; leave them out')
  if (!isInteger(sessionTimeoutMs, 100, 3_600_000))
    throw invalid('sessionTimeoutMs must be an integer from 100 to 3600000')
  if (typeof basePath !== 'string' || !isPath(basePath))
    throw invalid('basePath must be an absolute ZooKeeper path such as /locks')
  if (typeof rawPath !== 'boolean') throw invalid('rawPath must be true or false')
  const checkedAuth = checkAuth(auth)
  const acl = options['acl'] ?? (checkedAuth.length > 0 ? 'creator' : 'open')
  if (!isAcl(acl))
    throw invalid('acl must be "open", "creator" or a list of { scheme, id, permissions: 1 to 31 }')
  const checkedServers = client === undefined ? checkServers(servers) : ''
  return { client, servers: checkedServers, auth: checkedAuth, acl, sessionTimeoutMs, basePath, rawPath }
}

function withoutServers(rest: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  if (rest['servers'] !== undefined || rest['client'] !== undefined)
    throw invalid('give one of url, servers and client')
  return rest
}

function checkServers(servers: unknown): string {
  if (typeof servers !== 'string' || !/^[\w.-]+(:\d{1,5})?(,[\w.-]+(:\d{1,5})?)*(\/|$)/.test(servers))
    throw invalid('servers must be host:port,host:port with an optional /chroot')
  // The library connects later, when nobody could catch what that throws.
  for (const [, port] of servers.replace(/\/.*/, '').matchAll(/:(\d+)/g))
    if (!isInteger(Number(port), 1, 65_535)) throw invalid('the ports of servers must be from 1 to 65535')
  const slash = servers.indexOf('/')
  if (slash >= 0 && slash < servers.length - 1 && !isPath(servers.slice(slash)))
    throw invalid('the chroot of servers must be an absolute ZooKeeper path')
  return servers
}

function checkAuth(auth: unknown): readonly ZookeeperAuth[] {
  const list: readonly unknown[] = auth === undefined ? [] : Array.isArray(auth) ? auth : [auth]
  return list.map((one) => {
    if (!isAuth(one)) throw invalid('auth must be { scheme, credentials } with texts, or a list of these')
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
  return isInteger(value['permissions'], 1, 31)
}

function isClient(value: unknown): value is Client {
  const methods = ['getState', 'getSessionTimeout', 'create', 'remove', 'getData', 'transaction', 'on']
  if (typeof value !== 'object' || value === null || !('connectionManager' in value)) return false
  return methods.every((method) => typeof Reflect.get(value, method) === 'function')
}

function isInteger(value: unknown, min: number, max: number): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
