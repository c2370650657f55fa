import { dirname, resolve } from 'node:path'
import { openLocks } from '@locks/core'
import type { Locks, LocksConfig } from '@locks/core'
import { isRecord } from '@locks/core/adapter'
import type { Arguments } from './arguments.ts'
import { UsageError } from './errors.ts'
import { readJsonFile } from './json-file.ts'
import type { Options } from './options.ts'
import type { Session } from './session.ts'
import { showUrl } from './url.ts'

export const backendOptions: Options = {
  url: { takes: 'URL', help: 'the backend; default: --config, then LOCKS_URL' },
  config: { takes: 'FILE', help: 'a JSON file with the config of the backend' },
  store: { takes: 'NAME', help: 'which of several stores of that config; default: its default' },
}

export interface Backend {
  readonly config: LocksConfig
  /** Which of several stores, unless it is that config's default. */
  readonly store?: string
}

/** Which backend a call is about: its own argument, `--url`, `--config` or `LOCKS_URL`. */
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
  throw new UsageError('which backend? Give --url URL or --config FILE, or set LOCKS_URL')
}

/** A client that is closed, and so gives back what it holds, however the call ends. */
export async function openBackend(session: Session, { config, ...options }: Backend): Promise<Locks> {
  const locks = await openLocks(config, options)
  if (session.signal.aborted) {
    // The session has ended meanwhile, and tidies up no more.
    await locks.close()
    throw session.signal.reason
  }
  session.onEnd(() => locks.close())
  return locks
}

async function readConfig(file: string): Promise<LocksConfig> {
  const value = seenFrom(dirname(file), await readJsonFile('--config', file))
  if (isConfig(value)) return value
  throw new UsageError(`--config ${file} must be a URL in quotes or an object`)
}

/** A path in a file is meant from that file, wherever the command runs. */
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

/** As far as it can be told here: whoever opens it looks at every key. */
function isConfig(value: unknown): value is LocksConfig {
  return typeof value === 'string' || isRecord(value)
}

/** A backend as it may be shown. */
export function showBackend({ config, store }: Backend): string {
  if (typeof config === 'string') return showUrl(config)
  if ('adapter' in config) return config.adapter
  return `store ${store ?? config.default ?? ''}`
}
