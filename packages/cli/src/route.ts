import type { LocksConfig } from '@locks/core'
import type { Target } from '@locks/core/conformance'

/** How the clients of a backend reach its servers, and how to route them through proxies. */
export interface Route {
  /** The servers that can be proxied; none if that is not possible. */
  readonly targets: readonly Target[]
  /** The same config with other addresses, in the order of `targets`. */
  through(addresses: readonly Target[]): LocksConfig
  /** Why wire faults do not apply. */
  readonly noWire?: string
  /** Hosts that are not on this machine. */
  readonly remote: readonly string[]
}

const ports = new Map([
  ['redis', 6379],
  ['redlock', 6379],
  ['postgres', 5432],
  ['postgresql', 5432],
  ['mysql', 3306],
  ['mariadb', 3306],
  ['zookeeper', 2181],
])

const announced = 'its servers announce their own addresses, so clients bypass a proxy'
const reasons = new Map([
  ['redis+sentinel', announced],
  ['redis+cluster', announced],
  ['rediss', 'its certificate names the server, not a proxy'],
  ['file', 'a directory has no connections'],
  ['memory', 'it has no connections'],
])

/** Authorities of a URL that may contain several: `redlock:redis://a,redis://b`. */
const AUTHORITY = /\/\/([^/?#]*?)(?=,[a-z][a-z0-9+]*:\/\/|[/?#]|$)/gi

/** Parameters of a PostgreSQL URL that name a socket, or check the certificate of a host by its name. */
const ELSEWHERE = /^postgres(ql)?:.*[?&](host=|ssl(?!=false|mode=(disable|no-verify)))/i
const elsewhere = 'its URL names a socket or a certificate, which a proxy cannot provide'

export function routeOf(config: LocksConfig): Route {
  const url = urlOf(config)
  if (url === undefined)
    return { ...none(config, 'the config has no url that names its servers'), remote: ['unknown'] }
  const scheme = (/^([^:]+):/.exec(url)?.[1] ?? '').toLowerCase()
  const targets = targetsIn(url, ports.get(scheme) ?? 0)
  const remote = targets.map(({ host }) => host).filter((host) => !isLoopback(host))
  const unknown = ports.has(scheme) ? undefined : `${scheme}: is an unknown scheme`
  const noWire = reasons.get(scheme) ?? unknown ?? (ELSEWHERE.test(url) ? elsewhere : undefined)
  if (noWire !== undefined) return { ...none(config, noWire), remote: scheme === 'file' ? [] : remote }
  const through = (addresses: readonly Target[]): LocksConfig => withUrl(config, rewrite(url, addresses))
  return { targets, through, remote }
}

function none(config: LocksConfig, noWire: string): Omit<Route, 'remote'> {
  return { targets: [], through: () => config, noWire }
}

function urlOf(config: LocksConfig): string | undefined {
  if (typeof config === 'string') return config
  const url = 'url' in config ? config.url : undefined
  return typeof url === 'string' ? url : undefined
}

function withUrl(config: LocksConfig, url: string): LocksConfig {
  if (typeof config === 'string' || !('url' in config) || config.url === undefined) return url
  return { ...config, url }
}

/** `user:password@`, which may contain a comma, and the hosts after it. */
function partsOf(authority: string): { readonly login: string; readonly hosts: readonly string[] } {
  const at = authority.lastIndexOf('@') + 1
  return { login: authority.slice(0, at), hosts: authority.slice(at).split(',') }
}

function targetsIn(url: string, usualPort: number): readonly Target[] {
  return [...url.matchAll(AUTHORITY)].flatMap(([, authority = '']) =>
    partsOf(authority).hosts.map((text) => {
      const [, host = '', port] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(text) ?? []
      return { host: host.replaceAll(/[[\]]/g, '') || 'localhost', port: Number(port ?? usualPort) }
    }),
  )
}

function rewrite(url: string, addresses: readonly Target[]): string {
  let next = 0
  return url.replaceAll(AUTHORITY, (_all, authority: string) => {
    const { login, hosts } = partsOf(authority)
    const replaced = hosts.map(() => addresses[next++]).map((to) => `${to?.host}:${to?.port}`)
    return `//${login}${replaced.join(',')}`
  })
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}
