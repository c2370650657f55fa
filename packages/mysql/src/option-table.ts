import type { Duration } from '@locks/core/adapter'
import type { Pool } from 'mysql2'
import type { Pool as PromisePool } from 'mysql2/promise'

export const declared = {
  adapter: '@locks/mysql',
  example: "{ url: 'mysql://user@host/database' }",
  by: 'strategy',
  options: {
    /** `mysql://user:password@host:port/database`, with options behind `?`. */
    url: { kind: 'text', must: 'be mysql://user@host:port/database', place: true },
    /** Your own, used for single statements only. Other connections copy its settings. */
    pool: { kind: 'value', must: 'be a pool of mysql2', type: 'Pool | PromisePool', place: true },
    /** Connects with TLS. */
    ssl: { kind: 'boolean', default: false, inUrl: 'only' },
    /** `unique-key`: leases in a table. `row`: a row lock. `named`: GET_LOCK. */
    strategy: { kind: 'choice', of: ['unique-key', 'row', 'named'], default: 'unique-key', inUrl: true },
    /** The database of the tables. */
    schema: {
      kind: 'text',
      matches: '[A-Za-z_][A-Za-z0-9_]{0,47}',
      must: 'be 1 to 48 letters, digits or _, and not begin with a digit',
      otherwise: 'that of the connection',
      inUrl: true,
    },
    /** The table of locks. Names of further tables begin with it. */
    table: {
      kind: 'text',
      matches: '[A-Za-z_][A-Za-z0-9_]{0,47}',
      must: 'be 1 to 48 letters, digits or _, and not begin with a digit',
      default: 'locks',
      inUrl: true,
    },
    /** `auto`: the first acquire creates missing tables, if the role may. `false`: only `migrate()` does. */
    migrate: { kind: 'choice', of: ['auto', false], default: 'auto', inUrl: true },
    /** Connections for short statements. A `pool` of yours has its own size. */
    poolSize: { kind: 'integer', range: [1, 1_000], default: 4, inUrl: true, notWith: 'pool' },
    /** Holders and waiters each have a connection: at most this many. Beyond it `LOCK_UNAVAILABLE`. */
    maxConnections: { kind: 'integer', range: [1, 10_000], default: 50, only: ['row', 'named'], inUrl: true },
    /** How long a holder may be silent before the server ends it. Shorter leases stay shorter. */
    sessionTtlMs: {
      kind: 'duration',
      range: [1_000, 3_600_000],
      default: 30_000,
      only: ['row', 'named'],
      inUrl: true,
    },
    /** Time without a grant after which a name's rows are deleted, in the background after releases. 0: never. */
    fenceIdleMs: {
      kind: 'duration',
      range: [1_000, 31_536_000_000],
      zero: true,
      default: 86_400_000,
      inUrl: true,
    },
  },
} as const

/** Options of `lockInTransaction`, beside `schema` and `table`. */
export const transactionOptions = {
  /** How long to wait for another holder; MySQL rounds up to seconds. 0: do not wait. */
  waitMs: { kind: 'duration', range: [0, 2_147_483_647], default: 10_000 },
} as const

/** How to connect: a URL, or a pool of the program's own. */
// <options ConnectionOptions places>
export type ConnectionOptions =
  | {
      /** `mysql://user:password@host:port/database`, with options behind `?`. */
      readonly url: string
      readonly pool?: never
    }
  | {
      /** Your own, used for single statements only. Other connections copy its settings. */
      readonly pool: Pool | PromisePool
      readonly url?: never
    }
// </options>

// <options SharedOptions shared>
export interface SharedOptions {
  /** The database of the tables. Default: that of the connection. */
  readonly schema?: string
  /** The table of locks. Names of further tables begin with it. Default: `locks`. */
  readonly table?: string
  /**
   * `auto`: the first acquire creates missing tables, if the role may. `false`: only `migrate()` does. Default: `auto`.
   */
  readonly migrate?: 'auto' | false
  /** Connections for short statements. A `pool` of yours has its own size. Default: 4. */
  readonly poolSize?: number
  /**
   * Time without a grant after which a name's rows are deleted, in the background after releases. 0: never. Default: a
   * day.
   */
  readonly fenceIdleMs?: Duration
}
// </options>

/** Of strategies `row` and `named`. */
// <options SessionOptions only row>
export interface SessionOptions {
  /** Holders and waiters each have a connection: at most this many. Beyond it `LOCK_UNAVAILABLE`. Default: 50. */
  readonly maxConnections?: number
  /** How long a holder may be silent before the server ends it. Shorter leases stay shorter. Default: 30 s. */
  readonly sessionTtlMs?: Duration
}
// </options>

export type Strategy = (typeof declared.options.strategy.of)[number]

/** Where the tables are. */
export type TableOptions = Pick<SharedOptions, 'schema' | 'table'>

export type MysqlOptions<S extends Strategy = Strategy> = ConnectionOptions &
  SharedOptions & { readonly strategy?: S } & (S extends 'unique-key' ? unknown : SessionOptions)
