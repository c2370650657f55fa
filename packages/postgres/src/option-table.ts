import type { Duration } from '@locks/core/adapter'
import type { PgPool, PostgresJs } from './drivers/given.ts'

export const declared = {
  adapter: '@locks/postgres',
  example: "{ url: 'postgres://user@host/database' }",
  by: 'strategy',
  options: {
    /** `postgres://user:password@host:port/database`, with options behind `?`. */
    url: { kind: 'text', must: 'be postgres://user@host:port/database', place: true },
    /** A `Pool` of `pg`, for single statements, or a `sql` of `postgres`. Other connections copy its settings. */
    pool: {
      kind: 'value',
      must: 'be a Pool of pg or a sql of postgres',
      type: 'PgPool | PostgresJs',
      place: true,
    },
    /** `unique-key`: leases in a table. `row`: a row lock of an open transaction. `advisory`: locks of few sessions. */
    strategy: { kind: 'choice', of: ['unique-key', 'row', 'advisory'], default: 'unique-key', inUrl: true },
    /** The schema of the tables. */
    schema: {
      kind: 'text',
      matches: '[A-Za-z_][A-Za-z0-9_]{0,47}',
      must: 'be 1 to 48 letters, digits or _, and not begin with a digit',
      default: 'public',
      inUrl: true,
    },
    /** The table of locks. Names of further tables and functions begin with it. */
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
    /** The client library. */
    library: {
      kind: 'choice',
      of: ['pg', 'postgres'],
      otherwise: 'the one installed, `pg` first',
      inUrl: true,
      notWith: 'pool',
    },
    /** `false` where LISTEN cannot work, as behind PgBouncer. Waiters then poll; nothing is prepared by name. */
    listen: { kind: 'boolean', default: true, only: ['unique-key'], inUrl: true },
    /** How long a lock that was handed off waits for its new holder to renew it. */
    claimTtlMs: { kind: 'duration', range: [100, 60_000], default: 3_000, only: ['unique-key'], inUrl: true },
    /** Connections for holders and waiters: at most this many. Beyond it `LOCK_UNAVAILABLE`. */
    maxConnections: {
      kind: 'integer',
      range: [1, 10_000],
      default: 50,
      only: ['row', 'advisory'],
      inUrl: true,
    },
    /** How long a holder may be silent before the server ends it. Shorter leases stay shorter. */
    sessionTtlMs: {
      kind: 'duration',
      range: [100, 3_600_000],
      default: 30_000,
      only: ['row', 'advisory'],
      inUrl: true,
    },
    /** `false`: no fences, and no tables; `inspect` shows only the backend of a holder. */
    fencing: { kind: 'boolean', default: true, only: ['advisory'], inUrl: true },
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
  /** How long to wait for another holder. 0: do not wait. */
  waitMs: { kind: 'duration', range: [0, 2_147_483_647], default: 10_000 },
  /** Without tables, and without a fence: only the lock, also beside strategy `advisory`. */
  advisory: { kind: 'boolean', default: false },
} as const

/** How to connect: a URL, or a pool of the program's own. */
// <options ConnectionOptions places>
export type ConnectionOptions =
  | {
      /** `postgres://user:password@host:port/database`, with options behind `?`. */
      readonly url: string
      readonly pool?: never
    }
  | {
      /** A `Pool` of `pg`, for single statements, or a `sql` of `postgres`. Other connections copy its settings. */
      readonly pool: PgPool | PostgresJs
      readonly url?: never
    }
// </options>

// <options SharedOptions shared>
export interface SharedOptions {
  /** The schema of the tables. Default: `public`. */
  readonly schema?: string
  /** The table of locks. Names of further tables and functions begin with it. Default: `locks`. */
  readonly table?: string
  /**
   * `auto`: the first acquire creates missing tables, if the role may. `false`: only `migrate()` does. Default: `auto`.
   */
  readonly migrate?: 'auto' | false
  /** Connections for short statements. A `pool` of yours has its own size. Default: 4. */
  readonly poolSize?: number
  /** The client library. Default: the one installed, `pg` first. */
  readonly library?: 'pg' | 'postgres'
  /**
   * Time without a grant after which a name's rows are deleted, in the background after releases. 0: never. Default: a
   * day.
   */
  readonly fenceIdleMs?: Duration
}
// </options>

/** Of strategy `unique-key`. */
// <options UniqueKeyOptions only unique-key>
export interface UniqueKeyOptions {
  /**
   * `false` where LISTEN cannot work, as behind PgBouncer. Waiters then poll; nothing is prepared by name. Default:
   * `true`.
   */
  readonly listen?: boolean
  /** How long a lock that was handed off waits for its new holder to renew it. Default: 3 s. */
  readonly claimTtlMs?: Duration
}
// </options>

/** Of strategy `row`. */
// <options RowOptions only row>
export interface RowOptions {
  /** Connections for holders and waiters: at most this many. Beyond it `LOCK_UNAVAILABLE`. Default: 50. */
  readonly maxConnections?: number
  /** How long a holder may be silent before the server ends it. Shorter leases stay shorter. Default: 30 s. */
  readonly sessionTtlMs?: Duration
}
// </options>

/** Of strategy `advisory`. */
// <options AdvisoryOptions only advisory>
export interface AdvisoryOptions {
  /** Connections for holders and waiters: at most this many. Beyond it `LOCK_UNAVAILABLE`. Default: 50. */
  readonly maxConnections?: number
  /** How long a holder may be silent before the server ends it. Shorter leases stay shorter. Default: 30 s. */
  readonly sessionTtlMs?: Duration
  /** `false`: no fences, and no tables; `inspect` shows only the backend of a holder. Default: `true`. */
  readonly fencing?: boolean
}
// </options>

/** The client libraries, in the order in which they are looked for. */
export type Library = (typeof declared.options.library.of)[number]

export type Strategy = (typeof declared.options.strategy.of)[number]

interface OptionsOf {
  readonly 'unique-key': UniqueKeyOptions
  readonly row: RowOptions
  readonly advisory: AdvisoryOptions
}

/** Where the tables are. */
export type TableOptions = Pick<SharedOptions, 'schema' | 'table'>

export type PostgresOptions<S extends Strategy = Strategy> = ConnectionOptions &
  SharedOptions & { readonly strategy?: S } & OptionsOf[S]
