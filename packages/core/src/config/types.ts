import type { Duration } from '../api/duration.ts'
import type { LockOptions } from '../api/options.ts'

/**
 * The options of each adapter in a config, by package name. The packages need not be imported or installed to be
 * checked here. Other adapters add themselves:
 *
 *     declare module '@locks/core' { interface AdapterConfigs { 'locks-etcd': { readonly url: string } } }
 */
export interface AdapterConfigs {
  '@locks/memory': {
    /** `memory:` or `memory:name`; clients of one name share a store. */
    readonly url?: string
  }
  '@locks/cas': CasConfig
  '@locks/redis': RedisConfig
  '@locks/redlock': RedlockConfig
  '@locks/zookeeper': ZookeeperConfig
  '@locks/postgres': PostgresConfig
  '@locks/mysql': MysqlConfig
}

type CasConfig = {
  /** The record of a free name is dropped after this long without a change; 0 for never. Default: a day. */
  readonly fenceIdleMs?: Duration
} & (
  | {
      /** A directory, for processes of one host. */
      readonly store: 'file'
      /** It must exist, be writable and contain nothing but locks. */
      readonly directory: string
      /** Accepts a file system that is not known to be local. */
      readonly trustFileSystem?: boolean
    }
  | ({
      /** A server, by its `url`. */
      readonly store: 'redis' | 'tair'
    } & CasServer)
  | {
      /** This process alone, for tests. */
      readonly store: 'memory'
      /** Clients of one name share a store. */
      readonly name?: string
    }
  | ({ readonly store?: never } & CasServer)
)

type CasServer = {
  /** `redis://…` or `tair://…`; without `store` also `file:…`. */
  readonly url: string
  /** Prefix of every key. Default: `locks:cas:`. */
  readonly prefix?: string
}

type OneOf<T> = {
  [K in keyof T]: { readonly [P in K]: T[P] } & { readonly [P in Exclude<keyof T, K>]?: never }
}[keyof T]

/** Options of ioredis that can be written in JSON. */
type IoredisOptions = Readonly<Record<string, unknown>>

type RedisConfig = OneOf<{
  /** `redis:`, `rediss:`, `redis+sentinel:` or `redis+cluster:`. */
  url: string
  /** Options of ioredis: host, port, db, tls, username, password, sentinels … */
  connection: IoredisOptions
  /** Nodes and options of an ioredis Cluster. */
  cluster: {
    readonly nodes: readonly (string | number | IoredisOptions)[]
    readonly options?: IoredisOptions
  }
}> & {
  /** In front of every lock name. Default: `locks:`. `''` shares names with Redisson. */
  readonly prefix?: string
  /** How long a lock that was handed off waits for its new holder to renew it. Default: 2 s. */
  readonly claimTtlMs?: Duration
  /** A grant that fewer replicas confirm in time is withdrawn. */
  readonly waitForReplicas?: number
  /** How long replicas may take to confirm a grant. Default: 1 s. */
  readonly waitForReplicasMs?: Duration
  /** The fence of a name is dropped after this long without a grant. Default: a day, or 0 (never) with `prefix: ''`. */
  readonly fenceIdleMs?: Duration
  /** What to do about server settings that can lose locks. Default: `warn`. */
  readonly serverSettings?: 'warn' | 'refuse' | 'ignore'
}

type RedlockConfig = OneOf<{
  /** `redlock://host:port,host:port,…[/db]` or `redlock:redis://…,redis://…`. */
  url: string
  /** Three, five or any number of independent primaries, by URL or as for `@locks/redis`. */
  nodes: readonly (string | RedisConfig)[]
}> & {
  /** In front of every lock name. Default: `locks:`. `''` shares names with Redisson. */
  readonly prefix?: string
  /** How many nodes must agree, at least a majority. Default: a majority. */
  readonly quorum?: number
  /** How long a node may be silent before it counts as failed. Default: 1 s. */
  readonly nodeTimeoutMs?: Duration
  /** `false` saves the round trip that makes fences increase across majorities. */
  readonly fencing?: boolean
  /** The fence of a name is dropped after this long without a grant. Default: that of the nodes, a day. */
  readonly fenceIdleMs?: Duration
}

type ZookeeperAuth = { readonly scheme: string; readonly credentials: string }
type ZookeeperAcl = { readonly scheme: string; readonly id: string; readonly permissions: number }

type ZookeeperConfig = OneOf<{
  /** `zookeeper://[user:password@]host:port,…[/chroot]`. */
  url: string
  /** `host:port,host:port[/chroot]`. */
  servers: string
}> & {
  /** Credentials of the session, such as `{ scheme: 'digest', credentials: 'user:password' }`. */
  readonly auth?: ZookeeperAuth | readonly ZookeeperAuth[]
  /** Access to the nodes of the locks. Default: `creator` with `auth`, `open` without. */
  readonly acl?: 'open' | 'creator' | readonly ZookeeperAcl[]
  /** Requested from the server. A crashed holder blocks its locks for this long. Default: 30 s. */
  readonly sessionTimeoutMs?: Duration
  /** The path of the locks. Default: `/locks`. */
  readonly basePath?: string
  /** A lock's name is its path, to share it with Curator. */
  readonly rawPath?: boolean
}

type SqlConfig = {
  /** With user, password, host and database. The tables must exist: see `migrate` of the package. */
  readonly url: string
  /** The schema of the tables. Default: `public` in PostgreSQL, the database of the connection in MySQL. */
  readonly schema?: string
  /** Default: `locks`. */
  readonly table?: string
  /** Connections for short statements. Default: 4. */
  readonly poolSize?: number
  /** For strategies with a connection per holder and waiter: the most connections. Default: 50. */
  readonly maxConnections?: number
  /** For strategies with a connection per holder: its longest silence. Default: 30 s. */
  readonly sessionTtlMs?: Duration
  /** The rows of a name are deleted after this long without a grant; 0 for never. Default: a day. */
  readonly fenceIdleMs?: Duration
}

type PostgresConfig = SqlConfig & {
  /** `unique-key` (leases in a table) or `row` (a row lock of an open transaction). Default: `unique-key`. */
  readonly strategy?: 'unique-key' | 'row'
  /** For `unique-key`: `false` where LISTEN does not work, such as behind a pooler. Waiters then poll. */
  readonly listen?: boolean
  /** For `unique-key`: how long a lock that was handed off waits for its new holder to renew it. Default: 3 s. */
  readonly claimTtlMs?: Duration
}

type MysqlConfig = SqlConfig & {
  /** `unique-key` (leases in a table), `row` (a row lock) or `named` (GET_LOCK). Default: `unique-key`. */
  readonly strategy?: 'unique-key' | 'row' | 'named'
}

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
