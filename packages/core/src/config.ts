import { createRequire } from 'node:module'
import { dirname, isAbsolute, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isLockError, LockError } from './errors.ts'
import { createLocks } from './locks.ts'
import type { Locks } from './locks.ts'
import type { LocksOptions } from './options.ts'
import type { AdapterFactory } from './spi.ts'
import { invalid } from './validate.ts'

/**
 * One JSON value describes a backend everywhere: a URL, or an adapter's package name or module path
 * with that adapter's own options.
 */
export type LocksConfig = string | ({ readonly adapter: string } & Readonly<Record<string, unknown>>)

/**
 * What a module must export to be named in a config. `options` is the config less its `adapter`
 * key, or `{ url }`; unknown keys and bad values MUST be refused with `LOCK_INVALID_ARGUMENT`.
 */
export interface AdapterModule {
  fromConfig(options: Readonly<Record<string, unknown>>): AdapterFactory | Promise<AdapterFactory>
}

/** Which package serves which URL scheme. */
export const schemes: ReadonlyMap<string, string> = new Map([
  ['memory', '@locks/memory'],
  ['file', '@locks/cas'],
  ['tair', '@locks/cas'],
  ['redis', '@locks/redis'],
  ['rediss', '@locks/redis'],
  ['redis+sentinel', '@locks/redis'],
  ['redis+cluster', '@locks/redis'],
  ['redlock', '@locks/redlock'],
  ['zookeeper', '@locks/zookeeper'],
  ['postgres', '@locks/postgres'],
  ['postgresql', '@locks/postgres'],
  ['mysql', '@locks/mysql'],
  ['mariadb', '@locks/mysql'],
])

/** Makes a client from config; a URL may also come from the environment as `LOCKS_URL`. */
export async function openLocks(
  config: LocksConfig | undefined = process.env['LOCKS_URL'],
  options?: LocksOptions,
): Promise<Locks> {
  return createLocks(await loadAdapter(config), options)
}

/** Imports the adapter that `config` names and configures it. Connects to nothing yet. */
export async function loadAdapter(config: LocksConfig | undefined): Promise<AdapterFactory> {
  if (config === undefined) throw invalid('no config: pass a URL or { adapter }, or set LOCKS_URL')
  if (typeof config === 'string') {
    const module = await importAdapter(packageOf(config))
    return module.fromConfig({ url: config })
  }
  if (typeof config !== 'object' || config === null || typeof config.adapter !== 'string')
    throw invalid('config must be a URL or an object with the key adapter: a package name or a module path')
  const { adapter, ...options } = config
  const module = await importAdapter(adapter)
  return module.fromConfig(options)
}

function packageOf(url: string): string {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase()
  const name = scheme === undefined ? undefined : schemes.get(scheme)
  if (name !== undefined) return name
  // Not the URL itself: it may carry a password.
  const got = scheme === undefined ? 'no scheme' : `scheme ${scheme}:`
  throw invalid(`unknown backend URL (${got}); known schemes: ${[...schemes.keys()].join(', ')}`)
}

async function importAdapter(specifier: string): Promise<AdapterModule> {
  if (/^(?!file:)[a-z][a-z0-9+.-]*:/i.test(specifier) && !isAbsolute(specifier))
    throw invalid(
      'adapter must be a package name or a module path, not a URL; pass a URL as the config itself',
    )
  let module: unknown
  try {
    module = await import(resolve(specifier))
  } catch (error) {
    if (isLockError(error)) throw error
    const why = error instanceof Error ? error.message : 'unknown error'
    throw new LockError('LOCK_INVALID_ARGUMENT', `cannot load adapter ${JSON.stringify(specifier)}: ${why}`, {
      cause: error,
    })
  }
  if (!isAdapterModule(module))
    throw invalid(`module ${JSON.stringify(specifier)} is no adapter: it must export a function fromConfig`)
  return module
}

/**
 * Paths and packages are the program's: with strict installs core cannot see an adapter itself. They
 * are looked for from the working directory, then from the program's own, then from here.
 */
function resolve(specifier: string): string {
  if (specifier.startsWith('file:')) return specifier
  for (const folder of [process.cwd(), dirname(process.argv[1] ?? ''), import.meta.dirname]) {
    try {
      return pathToFileURL(createRequire(join(folder, 'package.json')).resolve(specifier)).href
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined
      // A package for `import` only: that cannot be resolved from elsewhere, but perhaps from here.
      if (code === 'ERR_PACKAGE_PATH_NOT_EXPORTED') return specifier
    }
  }
  throw invalid(
    `cannot find adapter ${JSON.stringify(specifier)}: install it (npm install ${specifier}) or check the path`,
  )
}

function isAdapterModule(module: unknown): module is AdapterModule {
  return (
    typeof module === 'object' &&
    module !== null &&
    'fromConfig' in module &&
    typeof module.fromConfig === 'function'
  )
}
