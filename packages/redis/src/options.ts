import { queryOptions, settleOptions, urlDecoded, urlOf, urlParts, wrongOption } from '@locks/core/adapter'
import type { Settled } from '@locks/core/adapter'
import type { ConnectionOptions } from './drivers/given.ts'
import { errors } from './errors.ts'
import { declared } from './option-table.ts'
import type { ClusterPlace, RedisWarning } from './option-table.ts'

/** The default of `fenceIdleMs`, unless names are shared with Redisson. */
const FENCE_IDLE_MS = 86_400_000

/** Options with every default filled in, and the URL as what it says. */
export interface RedisSettings extends Omit<Settled<typeof declared.options>, 'url' | 'tls'> {
  readonly fenceIdleMs: number
  readonly onWarning: (warning: RedisWarning) => void
}

/** Checks what a program or a config gave. */
export function settle(options: unknown): RedisSettings {
  const given = urlOf(declared, options)
  const parsed = given === undefined ? undefined : parseUrl(given)
  const { url: _, tls: __, ...read } = settleOptions(declared, options, parsed?.extra)
  return {
    ...read,
    ...parsed?.place,
    fenceIdleMs: read.fenceIdleMs ?? (read.prefix === '' ? 0 : FENCE_IDLE_MS),
    onWarning: read.onWarning ?? emitWarning,
  }
}

function emitWarning({ code, message }: RedisWarning): void {
  process.emitWarning(message, { type: 'LocksWarning', code })
}

interface ParsedUrl {
  readonly place: { readonly connection: ConnectionOptions } | { readonly cluster: ClusterPlace }
  /** Options of the adapter from behind the question mark. */
  readonly extra: Readonly<Record<string, unknown>>
}

function parseUrl(url: string): ParsedUrl {
  const { scheme, user = '', hosts, path, query } = urlParts(declared, url)
  const nodes = hosts.map(addressOf)
  const extra = queryOptions(declared, query)
  const secure = scheme === 'rediss' || extra['tls'] === true
  const access = { ...loginOf(user), ...(secure ? { tls: {} } : {}) }
  const steps = path.split('/').slice(1).map(decoded)
  switch (scheme) {
    case 'redis+cluster':
      if (path !== '' && path !== '/')
        throw errors.invalid('a Cluster has no databases: url must end after its hosts')
      return { place: { cluster: { nodes, options: { redisOptions: access } } }, extra }
    case 'redis+sentinel': {
      const [name, db] = steps
      if (name === undefined || name === '' || steps.length > 2)
        throw errors.invalid(
          'url must name the primary that the sentinels watch: redis+sentinel://host:port,…/primary',
        )
      const sentinelTls = secure ? { enableTLSForSentinelMode: true } : {}
      const connection = { sentinels: nodes, name, ...access, ...sentinelTls, ...dbOf(db) }
      return { place: { connection }, extra }
    }
    case 'redis':
    case 'rediss': {
      const [node, more] = nodes
      if (node === undefined || more !== undefined || steps.length > 1) throw wrongOption(declared, 'url')
      return { place: { connection: { ...node, ...access, ...dbOf(steps[0]) } }, extra }
    }
    default:
      throw wrongOption(declared, 'url')
  }
}

function addressOf(text: string): { host: string; port: number } {
  const match = /^(\[[0-9a-f:.]+\]|[^:[\]\s]+)(?::(\d{1,5}))?$/i.exec(text)
  const host = match?.[1]?.replace(/^\[|\]$/g, '')
  const port = Number(match?.[2] ?? 6379)
  if (host === undefined || port < 1 || port > 65_535)
    throw errors.invalid('url: every host must be host or host:port')
  return { host, port }
}

function loginOf(login: string): { username?: string; password?: string } {
  if (login === '') return {}
  const colon = login.indexOf(':')
  const username = decoded(colon < 0 ? login : login.slice(0, colon))
  const password = colon < 0 ? '' : decoded(login.slice(colon + 1))
  return { ...(username && { username }), ...(password && { password }) }
}

function dbOf(text: string | undefined): { db?: number } {
  if (text === undefined || text === '') return {}
  if (!/^\d{1,5}$/.test(text)) throw errors.invalid('url: the database must be a number')
  return { db: Number(text) }
}

function decoded(text: string): string {
  return urlDecoded(declared, text)
}
