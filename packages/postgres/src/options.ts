import { fenceIdleOf, plainUrl, whatIs } from '@locks/core'
import type { Duration } from '@locks/core'
import { boolean, fromUrl, identifier, shownUrl, wholeNumber } from '@locks/sql'
import type { Address, Faults } from '@locks/sql'
import type { ClientConfig, Pool } from 'pg'
import { faults } from './errors.ts'

const { invalid } = faults

export type Strategy = 'unique-key' | 'row'

/** Where the tables are. */
export interface PlaceOptions {
  /** `public` unless told. Letters, digits and `_`. */
  readonly schema?: string
  /** `locks` unless told; further tables and functions have names that begin with it. */
  readonly table?: string
}

/** How to connect: a URL, or a pool of the program's own. */
export type ConnectionOptions =
  | {
      /** `postgres://user:password@host:port/database`, with options behind `?`. */
      readonly url: string
      readonly pool?: never
    }
  | {
      /**
       * Only ever used for short statements. Listening, row locks and renewals that would wait for a connection of it
       * use connections beside it, made alike.
       */
      readonly pool: Pool
      readonly url?: never
    }

export type PostgresOptions<S extends Strategy = Strategy> = ConnectionOptions &
  PlaceOptions & {
    /** `unique-key` (leases in a table) unless told, or `row` (a row lock of an open transaction). */
    readonly strategy?: S
    /** Connections for short statements, 4 unless told. Not for a `pool` of yours. */
    readonly poolSize?: number
    /** After so long without a grant the rows of a name are deleted, behind releases. Default: a day; 0 for never. */
    readonly fenceIdleMs?: Duration
  } & (S extends 'row' ? RowOptions : UniqueKeyOptions)

export interface UniqueKeyOptions {
  /**
   * `false` where LISTEN cannot work (PgBouncer in transaction mode): waiters then poll, and no
   * statement is prepared by name.
   */
  readonly listen?: boolean
  /** How long a lock that was handed over waits for its new holder to show a sign of life: 3 s unless told. */
  readonly claimTtlMs?: Duration
}

export interface RowOptions {
  /** Holders and waiters each have a connection: at most this many, 50 unless told. */
  readonly maxConnections?: number
  /** How long a holder may be silent before the server ends it, 30 s unless told. Shorter leases stay shorter. */
  readonly sessionTtlMs?: Duration
}

export interface Place {
  readonly schema: string
  readonly table: string
}

export interface Settings {
  readonly strategy: Strategy
  readonly place: Place
  readonly pool: Pool | undefined
  /** For connections that the adapter opens itself. */
  readonly config: ClientConfig
  readonly poolSize: number
  readonly listen: boolean
  readonly claimTtlMs: number
  readonly maxConnections: number
  readonly sessionTtlMs: number
  readonly fenceIdleMs: number
  /** Errors that say where the database is. */
  readonly faults: Faults
}

const own = [
  'strategy',
  'schema',
  'table',
  'poolSize',
  'listen',
  'claimTtlMs',
  'maxConnections',
  'sessionTtlMs',
  'fenceIdleMs',
]
const DEFAULT_SCHEMA = 'public'
const DEFAULT_TABLE = 'locks'
const rowOnly = ['maxConnections', 'sessionTtlMs']
const uniqueKeyOnly = ['listen', 'claimTtlMs']

/** Parameters of a URL that are for `pg` itself, or that it passes over: hosting companies have them in their URLs. */
const passedOn = new Set([
  'application_name',
  'channel_binding',
  'client_encoding',
  'connect_timeout',
  'gssencmode',
  'host',
  'options',
  'ssl',
  'sslcert',
  'sslkey',
  'sslmode',
  'sslnegotiation',
  'sslrootcert',
  'target_session_attrs',
  'uselibpqcompat',
])

export function settle(options: Readonly<Record<string, unknown>>): Settings {
  if (typeof options !== 'object' || options === null)
    throw invalid("options must be an object, such as { url: 'postgres://user@host/database' }")
  for (const key of Object.keys(options))
    if (key !== 'url' && key !== 'pool' && !own.includes(key))
      throw invalid(`unknown key ${JSON.stringify(key)}; known: url, pool, ${own.join(', ')}`)
  const { url, pool } = options
  if (pool !== undefined && url !== undefined) throw invalid('give either url or pool, not both')
  if (pool !== undefined) {
    if (!isPool(pool)) throw invalid(`pool must be a Pool of pg, not ${whatIs(pool)}`)
    if (options['poolSize'] !== undefined) throw invalid('poolSize is for url; your pool has its own size')
    if ('binary' in pool.options && pool.options.binary === true)
      throw invalid('pool must not have binary: rows are read as text')
    // The pool hides its password from copies.
    return complete(options, pool, { ...pool.options, password: pool.options.password })
  }
  if (typeof url !== 'string') throw invalid('url must be postgres://user@host:port/database')
  const { given, connectionString } = split(url)
  return complete({ ...given, ...options }, undefined, { connectionString })
}

/** Takes our own parameters out of the URL; the text may hold a password and is never shown. */
function split(url: string): { given: Record<string, unknown>; connectionString: string } {
  let parsed: URL
  try {
    parsed = new URL(plainUrl(url))
  } catch {
    throw invalid('url must be postgres://user@host:port/database')
  }
  if (!/^postgres(ql)?:$/.test(parsed.protocol)) throw invalid('url must begin with postgres: or postgresql:')
  const given: Record<string, unknown> = {}
  for (const [key, value] of [...parsed.searchParams]) {
    if (passedOn.has(key)) continue
    if (!own.includes(key))
      throw invalid(`unknown parameter ${JSON.stringify(key)} in url; known: ${own.join(', ')}`)
    given[key] = fromUrl(value)
    parsed.searchParams.delete(key)
  }
  return { given, connectionString: parsed.href }
}

function complete(
  options: Readonly<Record<string, unknown>>,
  pool: Pool | undefined,
  config: ClientConfig,
): Settings {
  const { strategy = 'unique-key' } = options
  if (strategy !== 'unique-key' && strategy !== 'row') throw invalid('strategy must be unique-key or row')
  for (const key of strategy === 'row' ? uniqueKeyOnly : rowOnly)
    if (options[key] !== undefined) throw invalid(`${key} does not go with strategy ${strategy}`)
  const place = placeOf(options)
  const whole = (key: string, otherwise: number, ...range: readonly [number, number]): number =>
    wholeNumber(faults, key, options[key] ?? otherwise, range)
  return {
    strategy,
    place,
    faults: faults.at(shownUrl('postgres', addressOf(config), shownPlace(place))),
    pool,
    config,
    listen: boolean(faults, 'listen', options['listen'] ?? true),
    poolSize: whole('poolSize', 4, 1, 1_000),
    claimTtlMs: whole('claimTtlMs', 3_000, 100, 60_000),
    maxConnections: whole('maxConnections', 50, 1, 10_000),
    sessionTtlMs: whole('sessionTtlMs', 30_000, 100, 3_600_000),
    fenceIdleMs: fenceIdleOf(options['fenceIdleMs'], invalid),
  }
}

/** A pool of the program's may have any text there that `pg` understands, and some that it does not. */
function addressOf({ connectionString, ...config }: ClientConfig): Address {
  if (connectionString === undefined) return config
  try {
    const { username, hostname, port, pathname } = new URL(connectionString)
    return {
      user: decodeURIComponent(username),
      host: hostname.replace(/^\[(.*)\]$/, '$1'),
      port: port === '' ? undefined : port,
      database: decodeURIComponent(pathname.slice(1)),
    }
  } catch {
    return {}
  }
}

/** What of the place is not the default. */
function shownPlace({ schema, table }: Place): Record<string, string | undefined> {
  return {
    schema: schema === DEFAULT_SCHEMA ? undefined : schema,
    table: table === DEFAULT_TABLE ? undefined : table,
  }
}

export function placeOf(options: { readonly schema?: unknown; readonly table?: unknown }): Place {
  const { schema = DEFAULT_SCHEMA, table = DEFAULT_TABLE } = options
  return { schema: identifier(faults, 'schema', schema), table: identifier(faults, 'table', table) }
}

function isPool(value: unknown): value is Pool {
  return (
    typeof value === 'object' &&
    value !== null &&
    'connect' in value &&
    typeof value.connect === 'function' &&
    'options' in value &&
    typeof value.options === 'object' &&
    'totalCount' in value
  )
}
