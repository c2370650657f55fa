import { fileURLToPath } from 'node:url'
import { resolve } from 'node:path'
import { isRecord, settleOptions, urlDecoded, urlOf, wrongOption } from '@locks/core/adapter'
import type { Settled, StoreFactory } from '@locks/core/adapter'
import { errors } from './errors.ts'
import { declared } from './option-table.ts'
import { fileStore } from './stores/file.ts'
import { memoryStore } from './stores/memory.ts'
import { parseServerUrl } from './stores/redis-place.ts'
import { redisStore } from './stores/redis.ts'
import { tairStore } from './stores/tair.ts'

type Read = Settled<typeof declared.options>

export interface StoreSettings {
  readonly open: StoreFactory
  /** Whether that store talks to a server. */
  readonly needsClient: boolean
  readonly fenceIdleMs: number
}

const namedStores = new Map<string, StoreFactory>()

/** `{ store, … }` with what that store needs, or `{ url }` alone: `file:/var/lock/app`, `tair://host:6379`. */
export function settle(options: unknown): StoreSettings {
  const given = withStore(options)
  const read = settleOptions(declared, given, urlLayer(given))
  const { store, fenceIdleMs } = read
  return { open: storeOf(read), needsClient: store === 'redis' || store === 'tair', fenceIdleMs }
}

/** What `settle` opens, for programs that start others on the same store. */
export function storeFrom(options: Readonly<Record<string, unknown>>): StoreFactory {
  return settle(options).open
}

/** Options in the URL of a server. */
function urlLayer(options: unknown): Readonly<Record<string, unknown>> {
  const url = urlOf(declared, options)
  return url === undefined || !URL.canParse(url) ? {} : parseServerUrl(url).extra
}

/** A URL alone says which store it is. */
function withStore(options: unknown): unknown {
  const url = urlOf(declared, options)
  if (!isRecord(options) || options['store'] !== undefined) return options
  if (url === undefined) throw wrongOption(declared, 'store')
  if (url.startsWith('tair:')) return { ...options, store: 'tair' }
  if (!url.startsWith('file:'))
    throw errors.invalid('url must begin with file: or tair:, or stand beside store: redis or tair')
  if (options['directory'] !== undefined) throw errors.invalid('give exactly one of url, directory')
  const { url: _, ...rest } = options
  return { ...rest, store: 'file', directory: directoryOf(url) }
}

function storeOf({ store, url, name, directory = '', trustFileSystem, prefix }: Read): StoreFactory {
  switch (store) {
    case 'memory':
      return memoryNamed(name)
    case 'file':
      return fileStore({ directory: resolve(directory), trustFileSystem })
    case 'redis':
      return redisStore({ url: serverUrl(store, url, ['redis:', 'rediss:']), prefix })
    case 'tair':
      return tairStore({ url: serverUrl(store, url, ['tair:', 'redis:', 'rediss:']), prefix })
    case undefined:
      throw wrongOption(declared, 'store')
  }
}

function memoryNamed(name: string): StoreFactory {
  const store = namedStores.get(name) ?? memoryStore()
  namedStores.set(name, store)
  return store
}

function serverUrl(store: string, url: string | undefined, schemes: readonly string[]): string {
  if (url === undefined || !URL.canParse(url)) throw wrongOption(declared, 'url')
  if (schemes.includes(new URL(url).protocol)) return parseServerUrl(url).url
  throw errors.invalid(`url of store ${store} must begin with ${schemes.join(' or ')}`)
}

/** `file:/path`, `file:///path` and, from the working directory, `file:path`. */
function directoryOf(url: string): string {
  const path = url.slice('file:'.length)
  if (path.length === 0) throw errors.invalid('url must name a directory: file:/path/to/directory')
  // Dropping them silently would put the locks of two URLs into one directory.
  if (/[?#]/.test(path))
    throw errors.invalid(
      'a file: URL takes no options after ? or #; write %3F or %23 if the path contains them',
    )
  if (!path.startsWith('/')) return resolve(urlDecoded(declared, path))
  try {
    return fileURLToPath(url)
  } catch {
    throw errors.invalid('url must name a directory of this host: file:/path/to/directory')
  }
}
