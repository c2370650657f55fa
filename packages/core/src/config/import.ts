import { createRequire } from 'node:module'
import { dirname, isAbsolute, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { adapters, packagesFor, schemeOf } from './schemes.ts'
import { isPlain } from './values.ts'
import { isLockError, LockError } from '../adapter/lock-error.ts'
import type { AdapterFactory } from '../adapter/spi.ts'
import { invalid } from '../adapter/lock-error.ts'

/**
 * What a module must export to be used in a config. `options` is the config without its keys `adapter` and `defaults`,
 * or `{ url }`. Unknown keys and bad values MUST be rejected with `LOCK_INVALID_ARGUMENT`.
 */
export interface AdapterModule {
  fromConfig(options: Readonly<Record<string, unknown>>): AdapterFactory | Promise<AdapterFactory>
  /** Creates the tables that the store needs, or upgrades those of an earlier version. Same `options`. */
  migrate?(options: Readonly<Record<string, unknown>>): Promise<void>
}

/** Loads the module of an adapter by package name, path or file URL. */
export async function importAdapter(specifier: string): Promise<AdapterModule> {
  const scheme = isAbsolute(specifier) ? undefined : schemeOf(specifier)
  if (scheme !== undefined && scheme !== 'file')
    throw invalid(
      'adapter must be a package name or a module path, not a URL; pass a URL as the config itself',
    )
  const found = resolveModule(specifier)
  let module: unknown
  try {
    module = await import(found)
  } catch (error) {
    if (isLockError(error)) throw error
    const missing = missingClients(specifier, found)
    const why = missing ?? (error instanceof Error ? error.message : 'unknown error')
    const message = `cannot load adapter ${JSON.stringify(specifier)}: ${why}`
    throw new LockError('LOCK_INVALID_ARGUMENT', message, { cause: error })
  }
  if (!isAdapterModule(module))
    throw invalid(
      `module ${JSON.stringify(specifier)} is not an adapter: it must export a function fromConfig`,
    )
  return module
}

/**
 * Resolves paths and packages from the working directory, then from the program's directory, then from here: with a
 * strict package manager, core itself cannot see an adapter that the program installed.
 */
export function resolveModule(specifier: string): string {
  if (specifier.startsWith('file:')) return specifier
  for (const folder of [process.cwd(), dirname(process.argv[1] ?? ''), import.meta.dirname]) {
    try {
      return pathToFileURL(createRequire(join(folder, 'package.json')).resolve(specifier)).href
    } catch (error) {
      // A package for `import` only cannot be resolved from elsewhere, but perhaps from here.
      if (codeOf(error) === 'ERR_PACKAGE_PATH_NOT_EXPORTED') return specifier
    }
  }
  const shown = JSON.stringify(specifier)
  if (/^\.{0,2}[/\\]/.test(specifier) || isAbsolute(specifier))
    throw invalid(`cannot find adapter ${shown}: there is no such module in or above ${process.cwd()}`)
  // Do not suggest installing an unknown name: anyone may have published a package under it.
  if (specifier.startsWith('@locks/') && !adapters.includes(specifier))
    throw invalid(`adapter ${shown} is not installed and not one of ours; ours are: ${adapters.join(', ')}`)
  throw invalid(`adapter ${shown} is not installed: npm install ${packagesFor(specifier)}`)
}

/** Names the peer dependencies of an adapter that are missing, and how to install them. */
function missingClients(specifier: string, found: string): string | undefined {
  if (!found.startsWith('file:')) return undefined
  try {
    const require = createRequire(fileURLToPath(found))
    const manifest: unknown = require(`${specifier}/package.json`)
    const missing = peersOf(manifest).filter((peer) => !canResolve(require, peer))
    return missing.length === 0
      ? undefined
      : `it needs ${missing.join(' and ')}: npm install ${missing.join(' ')}`
  } catch {
    // Not a package, or its manifest is not exported: the original error has to do.
    return undefined
  }
}

function canResolve(require: NodeJS.Require, name: string): boolean {
  try {
    require.resolve(name)
    return true
  } catch (error) {
    return codeOf(error) !== 'MODULE_NOT_FOUND'
  }
}

function peersOf(manifest: unknown): readonly string[] {
  const optional = recordOf(manifest, 'peerDependenciesMeta')
  return Object.keys(recordOf(manifest, 'peerDependencies')).filter((peer) => !(peer in optional))
}

function recordOf(value: unknown, key: string): object {
  const found: unknown = isPlain(value) ? value[key] : undefined
  return isPlain(found) ? found : {}
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

function isAdapterModule(module: unknown): module is AdapterModule {
  return (
    typeof module === 'object' &&
    module !== null &&
    'fromConfig' in module &&
    typeof module.fromConfig === 'function'
  )
}
