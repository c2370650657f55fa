import { fenceIdleOf, plainUrl, whatIs } from '@locks/core'
import type { Duration } from '@locks/core'
import { fromUrl, identifier, shownUrl, wholeNumber } from '@locks/sql'
import type { Faults } from '@locks/sql'
import type { ConnectionOptions as ClientOptions, Pool } from 'mysql2'
import type { Pool as PromisePool } from 'mysql2/promise'
import { faults } from './errors.ts'
import { configOf, isPool } from './pool.ts'

const { invalid } = faults

export type Strategy = 'unique-key' | 'row' | 'named'

/** Where the tables are. */
export interface PlaceOptions {
  /** The database; that of the connection unless told. Letters, digits and `_`. */
  readonly schema?: string
  /** `locks` unless told; further tables have names that begin with it. */
  readonly table?: string
}

/** How to connect: a URL, or a pool of the program's own. */
export type ConnectionOptions =
  | {
      /** `mysql://user:password@host:port/database`, with options behind `?`. */
      readonly url: string
      readonly pool?: never
    }
  | {
      /**
       * Only ever used for short statements. Row and named locks, and renewals that would wait for a connection of it,
       * use connections beside it, made alike.
       */
      readonly pool: Pool | PromisePool
      readonly url?: never
    }

export type MysqlOptions<S extends Strategy = Strategy> = ConnectionOptions &
  PlaceOptions & {
    /** `unique-key` (leases in a table) unless told, `row` (a row lock) or `named` (GET_LOCK). */
    readonly strategy?: S
    /** Connections for short statements, 4 unless told. Not for a `pool` of yours. */
    readonly poolSize?: number
    /** After so long without a grant the rows of a name are deleted, behind releases. Default: a day; 0 for never. */
    readonly fenceIdleMs?: Duration
  } & (S extends 'unique-key' ? unknown : SessionOptions)

export interface SessionOptions {
  /** Holders and waiters each have a connection: at most this many, 50 unless told. */
  readonly maxConnections?: number
  /** How long a holder may be silent before the server ends it, 30 s unless told. Shorter leases stay shorter. */
  readonly sessionTtlMs?: Duration
}

export interface Place {
  readonly schema: string | undefined
  readonly table: string
}

export interface Settings {
  readonly strategy: Strategy
  readonly place: Place
  readonly pool: Pool | PromisePool | undefined
  /** For connections that the adapter opens itself. */
  readonly config: ClientOptions
  readonly poolSize: number
  readonly maxConnections: number
  readonly sessionTtlMs: number
  readonly fenceIdleMs: number
  /** Errors that say where the database is. */
  readonly faults: Faults
}

const own = ['strategy', 'schema', 'table', 'poolSize', 'maxConnections', 'sessionTtlMs', 'fenceIdleMs']
const DEFAULT_TABLE = 'locks'
const sessionOnly = ['maxConnections', 'sessionTtlMs']

export function settle(options: Readonly<Record<string, unknown>>): Settings {
  if (typeof options !== 'object' || options === null)
    throw invalid("options must be an object, such as { url: 'mysql://user@host/database' }")
  for (const key of Object.keys(options))
    if (key !== 'url' && key !== 'pool' && !own.includes(key))
      throw invalid(`unknown key ${JSON.stringify(key)}; known: url, pool, ${own.join(', ')}`)
  const { url, pool } = options
  if (pool !== undefined && url !== undefined) throw invalid('give either url or pool, not both')
  if (pool !== undefined) {
    if (!isPool(pool)) throw invalid(`pool must be a pool of mysql2, not ${whatIs(pool)}`)
    if (options['poolSize'] !== undefined) throw invalid('poolSize is for url; your pool has its own size')
    return complete(options, pool, configOf(pool))
  }
  if (typeof url !== 'string') throw invalid('url must be mysql://user@host:port/database')
  const { given, config } = split(url)
  return complete({ ...given, ...options }, undefined, config)
}

/** The text may hold a password and is never shown. */
function split(url: string): { given: Record<string, unknown>; config: ClientOptions } {
  let parsed: URL
  let user: string, password: string, database: string
  try {
    parsed = new URL(plainUrl(url))
    user = decodeURIComponent(parsed.username)
    password = decodeURIComponent(parsed.password)
    database = decodeURIComponent(parsed.pathname.slice(1))
  } catch {
    throw invalid('url must be mysql://user@host:port/database')
  }
  if (!/^(mysql|mariadb):$/.test(parsed.protocol)) throw invalid('url must begin with mysql: or mariadb:')
  const given: Record<string, unknown> = {}
  let ssl = {}
  for (const [key, value] of parsed.searchParams) {
    if (key === 'ssl') {
      if (value !== 'true' && value !== 'false') throw invalid('ssl in url must be true or false')
      if (value === 'true') ssl = { ssl: {} }
    } else if (own.includes(key)) given[key] = fromUrl(value)
    else throw invalid(`unknown parameter ${JSON.stringify(key)} in url; known: ssl, ${own.join(', ')}`)
  }
  const config: ClientOptions = {
    host: parsed.hostname === '' ? 'localhost' : parsed.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: parsed.port === '' ? 3306 : Number(parsed.port),
    user,
    password,
    ...(database !== '' && { database }),
    ...ssl,
  }
  return { given, config }
}

function complete(
  options: Readonly<Record<string, unknown>>,
  pool: Pool | PromisePool | undefined,
  config: ClientOptions,
): Settings {
  const { strategy = 'unique-key' } = options
  if (strategy !== 'unique-key' && strategy !== 'row' && strategy !== 'named')
    throw invalid('strategy must be unique-key, row or named')
  if (strategy === 'unique-key')
    for (const key of sessionOnly)
      if (options[key] !== undefined) throw invalid(`${key} does not go with strategy unique-key`)
  const place = placeOf(options)
  const { schema, table } = place
  const shown = shownUrl('mysql', config, { schema, table: table === DEFAULT_TABLE ? undefined : table })
  const whole = (key: string, otherwise: number, ...range: readonly [number, number]): number =>
    wholeNumber(faults, key, options[key] ?? otherwise, range)
  return {
    strategy,
    place,
    faults: faults.at(shown),
    pool,
    config,
    poolSize: whole('poolSize', 4, 1, 1_000),
    maxConnections: whole('maxConnections', 50, 1, 10_000),
    sessionTtlMs: whole('sessionTtlMs', 30_000, 1_000, 3_600_000),
    fenceIdleMs: fenceIdleOf(options['fenceIdleMs'], invalid),
  }
}

export function placeOf(options: { readonly schema?: unknown; readonly table?: unknown }): Place {
  const { schema, table = DEFAULT_TABLE } = options
  return {
    schema: schema === undefined ? undefined : identifier(faults, 'schema', schema),
    table: identifier(faults, 'table', table),
  }
}
