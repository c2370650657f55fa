import type { Duration } from '../adapter/duration.ts'
import type { LockOptions } from '../api/options.ts'

/**
 * The options of each adapter in a config, by package name. The packages need not be imported or installed to be
 * checked here. Other adapters add themselves:
 *
 *     declare module '@locks/core' { interface AdapterConfigs { 'locks-etcd': { readonly url: string } } }
 */
export interface AdapterConfigs {
  '@locks/memory': MemoryConfig
  '@locks/cas': CasConfig
  '@locks/redis': RedisConfig
  '@locks/redlock': RedlockConfig
  '@locks/zookeeper': ZookeeperConfig
  '@locks/postgres': PostgresConfig
  '@locks/mysql': MysqlConfig
}

type OneOf<T> = {
  [K in keyof T]: { readonly [P in K]: T[P] } & { readonly [P in Exclude<keyof T, K>]?: never }
}[keyof T]

/** Options of ioredis that can be written in JSON. */
type IoredisOptions = Readonly<Record<string, unknown>>

/** Nodes and options of an ioredis Cluster. */
interface IoredisCluster {
  readonly nodes: readonly (string | number | IoredisOptions)[]
  readonly options?: IoredisOptions
}

interface ZookeeperAuth {
  readonly scheme: string
  readonly credentials: string
}

interface ZookeeperAcl {
  readonly scheme: string
  readonly id: string
  readonly permissions: number
}

// Written by `node scripts/options.mjs` from the `option-table.ts` of each adapter.
// <options>
type CasConfig = {
  /**
   * Time without a change until a free name's record is dropped, in the background after releases. 0: never. Default: a
   * day.
   */
  readonly fenceIdleMs?: Duration
} & (
  | {
      /**
       * `file`: a directory. `redis`, `tair`: a server. `memory`: this process alone, for tests. Default: by the `url`,
       * which then begins with `file:` or `tair:`.
       */
      readonly store: 'memory'
      /** Clients of one name share a store, in configs. Default: `''`. */
      readonly name?: string
    }
  | {
      /**
       * `file`: a directory. `redis`, `tair`: a server. `memory`: this process alone, for tests. Default: by the `url`,
       * which then begins with `file:` or `tair:`.
       */
      readonly store: 'file'
      /** An existing directory on a local file system, writable and for these locks alone. */
      readonly directory: string
      /** Use the directory although it is on a network file system. Default: `false`. */
      readonly trustFileSystem?: boolean
    }
  | {
      /**
       * `file`: a directory. `redis`, `tair`: a server. `memory`: this process alone, for tests. Default: by the `url`,
       * which then begins with `file:` or `tair:`.
       */
      readonly store?: 'redis' | 'tair'
      /** `redis://…`, `rediss://…` or `tair://…`; without `store` also `file:/path/to/directory`. */
      readonly url: string
      /** In front of every key and channel. Default: `locks:cas:`. */
      readonly prefix?: string
    }
)

type MemoryConfig = {
  /** `memory:` or `memory:name`. Clients of one name share a store. Default: `memory:`. */
  readonly url?: string
}

type MysqlConfig = {
  /** `mysql://user:password@host:port/database`, with options behind `?`. */
  readonly url: string
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
} & (
  | {
      /** `unique-key`: leases in a table. `row`: a row lock. `named`: GET_LOCK. Default: `unique-key`. */
      readonly strategy?: 'unique-key'
    }
  | {
      /** `unique-key`: leases in a table. `row`: a row lock. `named`: GET_LOCK. Default: `unique-key`. */
      readonly strategy: 'row' | 'named'
      /** Holders and waiters each have a connection: at most this many. Beyond it `LOCK_UNAVAILABLE`. Default: 50. */
      readonly maxConnections?: number
      /** How long a holder may be silent before the server ends it. Shorter leases stay shorter. Default: 30 s. */
      readonly sessionTtlMs?: Duration
    }
)

type PostgresConfig = {
  /** `postgres://user:password@host:port/database`, with options behind `?`. */
  readonly url: string
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
} & (
  | {
      /**
       * `unique-key`: leases in a table. `row`: a row lock of an open transaction. `advisory`: locks of few sessions.
       * Default: `unique-key`.
       */
      readonly strategy?: 'unique-key'
      /**
       * `false` where LISTEN cannot work, as behind PgBouncer. Waiters then poll; nothing is prepared by name. Default:
       * `true`.
       */
      readonly listen?: boolean
      /** How long a lock that was handed off waits for its new holder to renew it. Default: 3 s. */
      readonly claimTtlMs?: Duration
    }
  | {
      /**
       * `unique-key`: leases in a table. `row`: a row lock of an open transaction. `advisory`: locks of few sessions.
       * Default: `unique-key`.
       */
      readonly strategy: 'row'
      /** Connections for holders and waiters: at most this many. Beyond it `LOCK_UNAVAILABLE`. Default: 50. */
      readonly maxConnections?: number
      /** How long a holder may be silent before the server ends it. Shorter leases stay shorter. Default: 30 s. */
      readonly sessionTtlMs?: Duration
    }
  | {
      /**
       * `unique-key`: leases in a table. `row`: a row lock of an open transaction. `advisory`: locks of few sessions.
       * Default: `unique-key`.
       */
      readonly strategy: 'advisory'
      /** Connections for holders and waiters: at most this many. Beyond it `LOCK_UNAVAILABLE`. Default: 50. */
      readonly maxConnections?: number
      /** How long a holder may be silent before the server ends it. Shorter leases stay shorter. Default: 30 s. */
      readonly sessionTtlMs?: Duration
      /** `false`: no fences, and no tables; `inspect` shows only the backend of a holder. Default: `true`. */
      readonly fencing?: boolean
    }
)

type RedisConfig = OneOf<{
  /** `redis://…`, `rediss://…`, `redis+sentinel://…` or `redis+cluster://…`, with options behind `?`. */
  readonly url: string
  /** Options of ioredis: host, port, db, tls, username, password, sentinels … */
  readonly connection: IoredisOptions
  /** `{ nodes, options }` of an ioredis Cluster. */
  readonly cluster: IoredisCluster
}> & {
  /** In front of every lock name. With `''` the name is the key, shared with `RLock` of Redisson. Default: `locks:`. */
  readonly prefix?: string
  /** How long a lock that was handed off waits for its new holder to renew it. Default: 3 s. */
  readonly claimTtlMs?: Duration
  /** A grant is undone unless this many replicas have it within `waitForReplicasMs`. Default: 0. */
  readonly waitForReplicas?: number
  /** How long a grant waits for `waitForReplicas`. Default: 1 s. */
  readonly waitForReplicasMs?: Duration
  /**
   * Time without a grant after which the fence of a name expires. The next one is higher. Default: a day, or 0 (never)
   * with `prefix: ''`.
   */
  readonly fenceIdleMs?: Duration
  /** What to do about server settings that can lose locks. Default: `warn`. */
  readonly serverSettings?: 'warn' | 'refuse' | 'ignore'
}

type RedlockConfig = OneOf<{
  /** Three, five or any number of independent primaries, by URL or as for `@locks/redis`. */
  readonly nodes: readonly (string | RedisConfig)[]
  /** `redlock://[user:password@]host:port,host:port,…[/db]` or `redlock:redis://…,redis://…`. */
  readonly url: string
}> & {
  /**
   * In front of every lock name and of a node's own prefix. With `''` names are shared with Redisson. Default: the
   * nodes' own, which is `locks:`.
   */
  readonly prefix?: string
  /** How many nodes must agree: at least a majority. Default: a majority. */
  readonly quorum?: number
  /** How long a node may be silent before it counts as failed. Default: 1 s. */
  readonly nodeTimeoutMs?: Duration
  /** `false` saves the round trip that makes fences rise across majorities. Default: `true`. */
  readonly fencing?: boolean
  /**
   * Time without a grant after which a node drops the fence of a name, by its own clock. 0: never. Default: the nodes'
   * own, a day.
   */
  readonly fenceIdleMs?: Duration
}

type ZookeeperConfig = OneOf<{
  /** `zookeeper://[user:password@]host:port,host:port[/chroot]`, with options behind `?`. */
  readonly url: string
  /** `host:port,host:port[/chroot]`. The chroot must exist. */
  readonly servers: string
}> & {
  /** Credentials of the session: `{ scheme: 'digest', credentials: 'user:password' }`, or several. */
  readonly auth?: ZookeeperAuth | readonly ZookeeperAuth[]
  /**
   * Who may use the nodes made here: `open`, `creator`, or a list of `{ scheme, id, permissions }`. Default: `creator`
   * with `auth`, `open` without.
   */
  readonly acl?: 'open' | 'creator' | readonly ZookeeperAcl[]
  /**
   * Requested session timeout; the server may grant another. A crashed holder blocks its locks for this long. Default:
   * 30 s.
   */
  readonly sessionTimeoutMs?: Duration
  /** Where the locks are. A name becomes one segment below it, percent-encoded where needed. Default: `/locks`. */
  readonly basePath?: string
  /** `true`: a lock's name is its path, to share it with Curator. Default: `false`. */
  readonly rawPath?: boolean
}
// </options>

/** Defaults for all locks of a client, as for `createLocks`. Options in code override them. */
export type LockDefaults = Readonly<LockOptions> & {
  /** How long the store may fail or stay silent before a call gives up. Default: 5 s. */
  readonly storeTimeoutMs?: Duration
}

type WithDefaults = {
  /** Options for all locks of the client. Options in code override them. */
  readonly defaults?: LockDefaults
}

type NamedAdapter = {
  [A in keyof AdapterConfigs]: { readonly adapter: A } & AdapterConfigs[A] & WithDefaults
}[keyof AdapterConfigs]

/** A module of the program, by its path. Its other options are its own. */
type OwnAdapter = {
  readonly adapter: `./${string}` | `../${string}` | `/${string}` | `file:${string}`
  readonly [option: string]: unknown
} & WithDefaults

/** One backend: a URL, or an adapter with its options. */
export type StoreConfig = string | NamedAdapter | OwnAdapter

/** Several backends by name. */
export interface StoresConfig {
  /** Each under the name by which `openLocks(config, { store })` opens it. */
  readonly stores: Readonly<Record<string, StoreConfig>>
  /** The store that is opened when none is named. Default: the only one. */
  readonly default?: string
}

/** A JSON value that describes a backend, for `openLocks`, the command line and the conformance suite. */
export type LocksConfig = StoreConfig | StoresConfig

/** A config that is not checked yet, from a file or another program. It is checked when it is used. */
export type UncheckedConfig = LocksConfig | ({ readonly adapter: string } & Readonly<Record<string, unknown>>)
