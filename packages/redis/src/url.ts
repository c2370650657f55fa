import type { RedisOptions as ConnectionOptions } from 'ioredis'
import { plainUrl, queryOptions, wrongOption } from '@locks/core/adapter'
import { invalid } from './errors.ts'
import { declared } from './option-table.ts'
import type { ClusterPlace } from './option-table.ts'

export interface ParsedUrl {
  readonly place: { readonly connection: ConnectionOptions } | { readonly cluster: ClusterPlace }
  /** Options of the adapter from behind the question mark. */
  readonly extra: Readonly<Record<string, unknown>>
}

const parts =
  /^(redis|rediss|redis\+sentinel|redis\+cluster):\/\/(?:([^@/?#]*)@)?([^@/?#]+)([^?#]*)(?:\?([^#]*))?$/i

/** By hand: `URL` refuses several hosts. No message shows the URL, which may carry a password. */
export function parseUrl(url: string): ParsedUrl {
  const match = parts.exec(plainUrl(url))
  if (match === null) throw wrongOption(declared, 'url')
  const [, scheme = '', login = '', hosts = '', path = '', query = ''] = match
  const nodes = hosts.split(',').map(addressOf)
  const params = new URLSearchParams(query)
  const extra = queryOptions(declared, params, ['tls'])
  const secure = scheme === 'rediss' || tlsOf(params)
  const access = { ...loginOf(login), ...(secure ? { tls: {} } : {}) }
  const steps = path.split('/').slice(1).map(decoded)
  switch (scheme) {
    case 'redis+cluster':
      if (path !== '' && path !== '/')
        throw invalid('a Cluster has no databases: url must end after its hosts')
      return { place: { cluster: { nodes, options: { redisOptions: access } } }, extra }
    case 'redis+sentinel': {
      const [name, db] = steps
      if (name === undefined || name === '' || steps.length > 2)
        throw invalid(
          'url must name the primary that the sentinels watch: redis+sentinel://host:port,…/primary',
        )
      const sentinelTls = secure ? { enableTLSForSentinelMode: true } : {}
      const connection = { sentinels: nodes, name, ...access, ...sentinelTls, ...dbOf(db) }
      return { place: { connection }, extra }
    }
    default: {
      const [node, more] = nodes
      if (node === undefined || more !== undefined || steps.length > 1) throw wrongOption(declared, 'url')
      return { place: { connection: { ...node, ...access, ...dbOf(steps[0]) } }, extra }
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

function tlsOf(query: URLSearchParams): boolean {
  const tls = query.get('tls')
  if (tls === null || tls === 'true' || tls === 'false') return tls === 'true'
  throw invalid('tls in url must be true or false')
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid('url: broken percent-encoding')
  }
}
