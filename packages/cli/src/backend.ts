import { dirname, resolve } from 'node:path'
import { openLocks } from '@locks/core'
import type { Locks, LocksConfig } from '@locks/core'
import { isRecord } from '@locks/core/adapter'
import type { Arguments } from './arguments.ts'
import { UsageError } from './errors.ts'
import { readJsonFile } from './json-file.ts'
import type { Options } from './options.ts'
import type { Invocation } from './invocation.ts'
import { showUrl } from './url.ts'

export const backendOptions: Options = {
  url: { takes: 'URL', help: 'the backend; default: --config, then LOCKS_URL' },
  config: { takes: 'FILE', help: 'a JSON file with the config of the backend' },
  store: { takes: 'NAME', help: 'the store, if the config has several; default: its default' },
}

export interface Backend {
  readonly config: LocksConfig
  /** The store, if the config has several. Default: the config's default. */
  readonly store?: string
}

/** The backend of an invocation: its argument, `--url`, `--config` or `LOCKS_URL`. */
export async function backendOf(
  args: Arguments,
  url: string | undefined = args.text('url'),
): Promise<Backend> {
  const config = url ?? (await configOf(args))
  const store = args.text('store')
  return store === undefined ? { config } : { config, store }
}

async function configOf(args: Arguments): Promise<LocksConfig> {
  const file = args.text('config')
  if (file !== undefined) return readConfig(file)
  const { LOCKS_URL } = process.env
  if (LOCKS_URL !== undefined && LOCKS_URL !== '') return LOCKS_URL
  throw new UsageError('no backend: pass --url URL or --config FILE, or set LOCKS_URL')
}

/** Opens a client that is closed, and so releases what it holds, however the invocation ends. */
export async function openBackend(invocation: Invocation, { config, ...options }: Backend): Promise<Locks> {
  const locks = await openLocks(config, options)
  if (invocation.signal.aborted) {
    // The clean-up has already run, so it would not close this client.
    await locks.close()
    throw invocation.signal.reason
  }
  invocation.onEnd(() => locks.close())
  return locks
}

async function readConfig(file: string): Promise<LocksConfig> {
  const value = seenFrom(dirname(file), await readJsonFile('--config', file))
  if (isConfig(value)) return value
  throw new UsageError(`--config ${file} must be a URL in quotes or an object`)
}

/** A path in a file is relative to that file, not to the working directory. */
function seenFrom(folder: string, value: unknown): unknown {
  if (!isRecord(value)) return value
  const { adapter, stores } = value
  if (typeof adapter === 'string' && adapter.startsWith('.'))
    return { ...value, adapter: resolve(folder, adapter) }
  if (!isRecord(stores)) return value
  const seen = Object.entries(stores).map(([name, store]): [string, unknown] => [
    name,
    seenFrom(folder, store),
  ])
  return { ...value, stores: Object.fromEntries(seen) }
}

/** A first check; `openLocks` checks every key. */
function isConfig(value: unknown): value is LocksConfig {
  return typeof value === 'string' || isRecord(value)
}

/** The backend as text, without secrets. */
export function showBackend({ config, store }: Backend): string {
  if (typeof config === 'string') return showUrl(config)
  if ('adapter' in config) return config.adapter
  return `store ${store ?? config.default ?? ''}`
}
