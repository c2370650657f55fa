import { fileURLToPath } from 'node:url'
import { resolve } from 'node:path'
import { invalid } from './errors.ts'
import { fileStore } from './stores/file.ts'
import { memoryStore } from './stores/memory.ts'
import { redisStore } from './stores/redis.ts'
import { tairStore } from './stores/tair.ts'
import type { StoreFactory } from './versioned-store.ts'

type Options = Readonly<Record<string, unknown>>

const stores: ReadonlyMap<unknown, (options: Options) => StoreFactory> = new Map([
  ['memory', memoryFrom],
  ['file', fileFrom],
  ['redis', (options: Options) => redisStore(serverFrom('redis', options))],
  ['tair', (options: Options) => tairStore(serverFrom('tair', options))],
])

const namedStores = new Map<string, StoreFactory>()

/** `{ store, … }` with what that store needs, or `{ url }` alone: `file:/var/lock/app`, `tair://host:6379`. */
export function storeFrom(options: Options): StoreFactory {
  const { store, ...rest } = options
  if (store === undefined && typeof rest['url'] === 'string') return fromUrl(rest['url'], rest)
  const make = stores.get(store)
  if (make === undefined) throw invalid(`store must be one of ${[...stores.keys()].join(', ')}`)
  return make(rest)
}

/** Whether that store talks to a server. */
export function needsClient({ store, url }: Options): boolean {
  return store === 'redis' || store === 'tair' || (typeof url === 'string' && url.startsWith('tair:'))
}

function fromUrl(url: string, options: Options): StoreFactory {
  if (url.startsWith('file:')) {
    onlyKnown(options, ['url'])
    return fileFrom({ directory: directoryOf(url) })
  }
  if (url.startsWith('tair:')) return tairStore(serverFrom('tair', options))
  throw invalid('url must begin with file: or tair:, or stand beside store: redis or tair')
}

/** `file:/path`, `file:///path` and, from the working directory, `file:path`. */
function directoryOf(url: string): string {
  const path = url.slice('file:'.length)
  if (path.length === 0) throw invalid('url must name a directory: file:/path/to/directory')
  // Dropping them silently would put the locks of two URLs into one directory.
  if (/[?#]/.test(path))
    throw invalid('a file: URL takes no options after ? or #; write %3F or %23 if the path contains them')
  if (!path.startsWith('/')) return resolve(decode(path))
  try {
    return fileURLToPath(url)
  } catch {
    throw invalid('url must name a directory of this host: file:/path/to/directory')
  }
}

function decode(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    throw invalid('url is not a valid file URL (percent-encoding)')
  }
}

function memoryFrom(options: Options): StoreFactory {
  onlyKnown(options, ['name'])
  const { name = '' } = options
  if (typeof name !== 'string') throw invalid('name must be a string')
  let store = namedStores.get(name)
  if (store === undefined) namedStores.set(name, (store = memoryStore()))
  return store
}

function fileFrom(options: Options): StoreFactory {
  onlyKnown(options, ['directory', 'trustFileSystem'])
  const { directory, trustFileSystem = false } = options
  if (typeof directory !== 'string' || directory === '') throw invalid('directory must be a path')
  if (typeof trustFileSystem !== 'boolean') throw invalid('trustFileSystem must be true or false')
  return fileStore({ directory: resolve(directory), trustFileSystem })
}

function serverFrom(store: string, options: Options): { url: string; prefix?: string } {
  onlyKnown(options, ['url', 'prefix'])
  const { url, prefix } = options
  // Never the URL itself in a message: it may carry a password.
  if (typeof url !== 'string' || !URL.canParse(url)) throw invalid(`url of store ${store} must be a URL`)
  const { protocol } = new URL(url)
  const allowed = store === 'tair' ? ['tair:', 'redis:', 'rediss:'] : ['redis:', 'rediss:']
  if (!allowed.includes(protocol))
    throw invalid(`url of store ${store} must begin with ${allowed.join(' or ')}`)
  if (prefix !== undefined && typeof prefix !== 'string') throw invalid('prefix must be a string')
  return prefix === undefined ? { url } : { url, prefix }
}

function onlyKnown(options: Options, known: readonly string[]): void {
  for (const key of Object.keys(options))
    if (!known.includes(key)) throw invalid(`unknown key ${JSON.stringify(key)}; known: ${known.join(', ')}`)
}
