import { importAdapter } from './import.ts'
import { adapterOf } from './schemes.ts'
import type { LocksConfig, UncheckedConfig } from './types.ts'
import { isPlain, plainValue } from './values.ts'
import { didYouMean, unknownKey } from '../adapter/did-you-mean.ts'
import { plainUrl } from '../adapter/url.ts'
import type { Plain } from './values.ts'
import { createLocks } from '../api/locks.ts'
import { defaultKeys } from '../api/validate.ts'
import type { Locks } from '../api/contract.ts'
import type { LocksOptions } from '../api/options.ts'
import type { AdapterFactory } from '../adapter/spi.ts'
import { invalid } from '../adapter/lock-error.ts'

export type OpenOptions = LocksOptions & {
  /** Which of several `stores` to open; events show it. Default: the config's `default`, or its only store. */
  readonly store?: string
}

/**
 * Makes a client from a config: a URL, an adapter with its options, or one of several named stores. Without a config,
 * the URL is read from the environment variable `LOCKS_URL`. Only the adapter that is used is loaded.
 */
export async function openLocks(config?: LocksConfig, options: OpenOptions = {}): Promise<Locks> {
  const { store: asked, ...given } = options
  const { adapter, options: own, defaults, store } = settle(config, asked)
  const factory = await configured(adapter, own)
  // createLocks checks these like any other options.
  return createLocks(factory, overlay(defaults, { ...given, store }))
}

/** Merges `given` over `base` by key, including the keys of `retry`. An explicit undefined means "not given". */
function overlay(base: Plain, given: Plain): Plain {
  const laid = new Map<string, unknown>(Object.entries(base))
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined) continue
    const below = laid.get(key)
    laid.set(key, isPlain(below) && isPlain(value) ? overlay(below, value) : value)
  }
  return Object.fromEntries(laid)
}

/** Imports and configures the adapter that `config` names, without the config's `defaults`. Does not connect yet. */
export async function loadAdapter(config?: UncheckedConfig, store?: string): Promise<AdapterFactory> {
  const { adapter, options } = settle(config, store)
  return configured(adapter, options)
}

/**
 * Creates the tables of the store that `config` names, with `migrate` of its adapter. Returns the adapter's name and
 * whether it has a `migrate`: most stores need none.
 */
export async function migrateStore(
  config?: UncheckedConfig,
  store?: string,
): Promise<{ readonly adapter: string; readonly migrated: boolean }> {
  const { adapter, options } = settle(config, store)
  const module = await importAdapter(adapter)
  // Rejects bad options before the store is touched.
  await module.fromConfig(options)
  await module.migrate?.(options)
  return { adapter, migrated: module.migrate !== undefined }
}

async function configured(adapter: string, options: Plain): Promise<AdapterFactory> {
  return (await importAdapter(adapter)).fromConfig(options)
}

interface Settled {
  /** Its name, if there are several stores. */
  readonly store?: string
  readonly adapter: string
  readonly options: Plain
  readonly defaults: Plain
}

function settle(config: unknown, store: string | undefined): Settled {
  if (config === undefined) {
    const url = process.env['LOCKS_URL']
    if (url === undefined || url === '')
      throw invalid('no config: pass a URL or { adapter }, or set LOCKS_URL to a URL')
    return settle(url, store)
  }
  const value = plainValue('config', config)
  if (isPlain(value) && Object.hasOwn(value, 'stores')) {
    const [name, ...picked] = pick(value, store)
    return { ...settleStore(picked), store: name }
  }
  if (store !== undefined) throw invalid('the option store needs a config with stores; this config has none')
  return settleStore(['config', value])
}

function settleStore([path, value]: readonly [path: string, value: unknown]): Settled {
  if (typeof value === 'string') {
    const url = plainUrl(value)
    return { adapter: adapterOf(url), options: { url }, defaults: {} }
  }
  if (!isPlain(value) || typeof value['adapter'] !== 'string' || value['adapter'] === '')
    throw invalid(`${path} must be a URL or an object with the key adapter: a package name or a module path`)
  const { adapter, defaults = {}, ...options } = value
  if (!isPlain(defaults)) throw invalid(`${path}.defaults must be an object of lock options`)
  for (const key of ['clock', 'store'])
    if (key in defaults) throw invalid(unknownKey(key, defaultKeys, ` in ${path}.defaults`))
  const { url } = options
  return {
    adapter,
    options: typeof url === 'string' ? { ...options, url: plainUrl(url) } : options,
    defaults,
  }
}

/** One of several stores, by name. */
function pick(
  config: Plain,
  asked: string | undefined,
): readonly [name: string, path: string, value: unknown] {
  const { stores, default: usual, ...others } = config
  const [unknown] = Object.keys(others)
  if (unknown !== undefined)
    throw invalid(
      `unknown key ${JSON.stringify(unknown)} in config; only stores and default are allowed here` +
        didYouMean(unknown, ['stores', 'default']),
    )
  if (!isPlain(stores) || Object.keys(stores).length === 0)
    throw invalid('config.stores must be an object with at least one store, by name')
  const names = Object.keys(stores).join(', ')
  const [only, ...more] = Object.keys(stores)
  if (usual !== undefined && (typeof usual !== 'string' || !Object.hasOwn(stores, usual)))
    throw invalid(`config.default must be the name of a store: ${names}`)
  const name = asked ?? usual ?? (more.length === 0 ? only : undefined)
  if (name === undefined) throw invalid(`config has no default; pass the option store with one of: ${names}`)
  if (!Object.hasOwn(stores, name))
    throw invalid(`config has no store ${JSON.stringify(name)}; its stores: ${names}`)
  return [name, `config.stores.${name}`, stores[name]]
}
