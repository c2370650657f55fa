import { plainUrl, queryOptions, settleOptions, urlOf, wrongOption } from '@locks/core/adapter'
import { errors } from '../errors.ts'
import { declared } from '../option-table.ts'
import type { RedisClient, RedisStoreOptions } from './redis-options.ts'

interface ServerUrl {
  /** Without options: ioredis would take some for its own, and ignore the others. */
  readonly url: string
  readonly extra: Readonly<Record<string, unknown>>
}

export interface Server {
  readonly place: { readonly url: string } | { readonly client: RedisClient }
  readonly prefix: string
}

/** The text may hold a password and is never shown. */
export function parseServerUrl(url: string): ServerUrl {
  const plain = plainUrl(url)
  // What follows would be lost.
  if (plain.includes('#')) throw errors.invalid('url must not have a #; write %23 for one in a password')
  if (!URL.canParse(plain)) throw wrongOption(declared, 'url')
  if (!/^(\/\d*)?$/.test(new URL(plain).pathname))
    throw errors.invalid('url must end with its host or with the number of a database: redis://host:6379/0')
  const at = plain.indexOf('?')
  if (at < 0) return { url: plain, extra: {} }
  return {
    url: plain.slice(0, at),
    extra: queryOptions(declared, new URLSearchParams(plain.slice(at + 1))),
  }
}

/** Where the server is, and what stands in front of its keys. */
export function serverOf(options: RedisStoreOptions): Server {
  const given = { ...options, store: 'redis' }
  const text = urlOf(declared, given)
  const parsed = text === undefined ? undefined : parseServerUrl(text)
  const { prefix, client } = settleOptions(declared, given, parsed?.extra)
  if (parsed?.extra['fenceIdleMs'] !== undefined)
    throw errors.invalid(
      'fenceIdleMs is not for a store: leave it out of url, and call cas(store, { fenceIdleMs })',
    )
  if (client !== undefined) return { place: { client }, prefix }
  if (parsed === undefined) throw wrongOption(declared, 'url')
  return { place: { url: parsed.url }, prefix }
}
