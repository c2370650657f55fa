import type { ClusterNode, ClusterOptions, RedisOptions as ConnectionOptions } from 'ioredis'
import { plainUrl } from '@locks/core/adapter'
import { invalid } from './errors.ts'

export interface ParsedUrl {
  readonly client?: undefined
  readonly connection?: ConnectionOptions
  readonly cluster?: { readonly nodes: readonly ClusterNode[]; readonly options?: ClusterOptions }
  /** Options of the adapter from behind the question mark. */
  readonly extra: Readonly<Record<string, string>>
}

const form =
  'redis://[user:password@]host[:port][/db], rediss://…, redis+sentinel://host:port,…/primary[/db] or redis+cluster://host:port,…'
const parts =
  /^(redis|rediss|redis\+sentinel|redis\+cluster):\/\/(?:([^@/?#]*)@)?([^@/?#]+)([^?#]*)(?:\?([^#]*))?$/i
const extras = [
  'prefix',
  'claimTtlMs',
  'waitForReplicas',
  'waitForReplicasMs',
  'fenceIdleMs',
  'serverSettings',
]

/** Several hosts may stand in one URL, which the platform's own parser refuses. Never shows the URL: it may carry a password. */
export function parseUrl(url: unknown): ParsedUrl {
  const match = typeof url === 'string' ? parts.exec(plainUrl(url)) : null
  if (match === null) throw invalid(`url must be ${form}`)
  const [, scheme = '', login = '', hosts = '', path = '', query = ''] = match
  const nodes = hosts.split(',').map(addressOf)
  const { tls, ...extra } = queryOf(query)
  const secure = scheme.toLowerCase() === 'rediss' || tls === 'true'
  const access = { ...loginOf(login), ...(secure ? { tls: {} } : {}) }
  const steps = path.split('/').slice(1).map(decoded)
  switch (scheme.toLowerCase()) {
    case 'redis+cluster':
      if (path !== '' && path !== '/')
        throw invalid('a Cluster has no databases: url must end after its hosts')
      return { cluster: { nodes, options: { redisOptions: access } }, extra }
    case 'redis+sentinel': {
      const [name, db] = steps
      if (name === undefined || name === '' || steps.length > 2)
        throw invalid(
          'url must name the primary that the sentinels watch: redis+sentinel://host:port,…/primary',
        )
      const sentinelTls = secure ? { enableTLSForSentinelMode: true } : {}
      return { connection: { sentinels: nodes, name, ...access, ...sentinelTls, ...dbOf(db) }, extra }
    }
    default: {
      const [node, more] = nodes
      if (node === undefined || more !== undefined || steps.length > 1) throw invalid(`url must be ${form}`)
      return { connection: { ...node, ...access, ...dbOf(steps[0]) }, extra }
    }
  }
}

function addressOf(text: string): { host: string; port: number } {
  const match = /^(\[[0-9a-f:.]+\]|[^:[\]\s]+)(?::(\d{1,5}))?$/i.exec(text)
  const host = match?.[1]?.replace(/^\[|\]$/g, '')
  const port = Number(match?.[2] ?? 6379)
  if (host === undefined || port < 1 || port > 65_535)
    throw invalid('url: every host must be host or host:port')
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
  if (!/^\d{1,5}$/.test(text)) throw invalid('url: the database must be a number')
  return { db: Number(text) }
}

function queryOf(query: string): Record<string, string> {
  const entries = [...new URLSearchParams(query)]
  for (const [key, value] of entries) {
    if (key === 'tls' && (value === 'true' || value === 'false')) continue
    if (!extras.includes(key))
      throw invalid(`url: unknown key ${JSON.stringify(key)}; known: ${extras.join(', ')}, tls`)
  }
  return Object.fromEntries(entries)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid('url: broken percent-encoding')
  }
}
