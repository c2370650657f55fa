import type { Duration } from '../api/duration.ts'
import type { LockOptions } from '../api/options.ts'

/**
 * What each adapter can be told in config, by the name of its package. The packages need not be imported, nor
 * even installed, to be checked here. An adapter of somebody else's adds itself:
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
  /** After so long without a change the record of a free name is dropped. Default: a day; 0 for never. */
  readonly fenceIdleMs?: Duration
} & (
  | {
      /** A directory, for processes of one host. */
      readonly store: 'file'
      /** It must exist, be writable and be for locks alone. */
      readonly directory: string
      /** Takes a file system that is not known to be a local one. */
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
  /** In front of every key: `locks:cas:` unless told. */
  readonly prefix?: string
}

type OneOf<T> = {
  [K in keyof T]: { readonly [P in K]: T[P] } & { readonly [P in Exclude<keyof T, K>]?: never }
}[keyof T]

/** Options of ioredis itself, as far as JSON can say them. */
type IoredisOptions = Readonly<Record<string, unknown>>

type RedisConfig = OneOf<{
  /** `redis:`, `rediss:`, `redis+sentinel:` or `redis+cluster:`. */
  url: string
  /** As ioredis has them: host, port, db, tls, username, password, sentinels … */
  connection: IoredisOptions
  /** Nodes and options of an ioredis Cluster. */
  cluster: {
    readonly nodes: readonly (string | number | IoredisOptions)[]
    readonly options?: IoredisOptions
  }
}> & {
  /** In front of every lock name. Default: `locks:`. `''` shares names with Redisson. */
  readonly prefix?: string
  /** How long a lock that was handed over waits for its new holder to renew it: 2 s unless told. */
  readonly claimTtlMs?: Duration
  /** Undoes a grant that fewer replicas have in time. */
  readonly waitForReplicas?: number
  /** That time: 1 s unless told. */
  readonly waitForReplicasMs?: Duration
  /** After so long without a grant the fence of a name is dropped. Default: a day, or 0 (never) with `prefix: ''`. */
  readonly fenceIdleMs?: Duration
  /** What to do about settings of the server that lose locks: `warn` unless told. */
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
  /** How many nodes must agree: a majority unless told, and never less. */
  readonly quorum?: number
  /** How long a node may be silent before it counts as failed: 1 s unless told. */
  readonly nodeTimeoutMs?: Duration
  /** `false` saves the round trip that makes fences rise across majorities. */
  readonly fencing?: boolean
  /** After so long without a grant the fence of a name is dropped. Default: that of the nodes, a day. */
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
  /** Who the session is, such as `{ scheme: 'digest', credentials: 'user:password' }`. */
  readonly auth?: ZookeeperAuth | readonly ZookeeperAuth[]
  /** Of the nodes made here: `creator` if there is `auth`, `open` otherwise. */
  readonly acl?: 'open' | 'creator' | readonly ZookeeperAcl[]
  /** Asked of the server, 30 s unless told. A crashed holder blocks its locks for this long. */
  readonly sessionTimeoutMs?: Duration
  /** Where the locks are: `/locks` unless told. */
  readonly basePath?: string
  /** A lock's name is its path, to share it with Curator. */
  readonly rawPath?: boolean
}

type SqlConfig = {
  /** With user, password, host and database. The tables must be there: see `migrate` of the package. */
  readonly url: string
  /** Where the tables are: `public` of PostgreSQL, the database of the connection in MySQL. */
  readonly schema?: string
  /** `locks` unless told. */
  readonly table?: string
  /** Connections for short statements, 4 unless told. */
  readonly poolSize?: number
  /** Of strategies that keep a connection for each holder and waiter: at most so many, 50 unless told. */
  readonly maxConnections?: number
  /** Of strategies that keep a connection for each holder: its longest silence, 30 s unless told. */
  readonly sessionTtlMs?: Duration
  /** After so long without a grant the rows of a name are deleted. Default: a day; 0 for never. */
  readonly fenceIdleMs?: Duration
}

type PostgresConfig = SqlConfig & {
  /** `unique-key` (leases in a table) unless told, or `row` (a row lock of an open transaction). */
  readonly strategy?: 'unique-key' | 'row'
  /** Of `unique-key`: `false` where LISTEN cannot work, such as behind a pooler. Waiters then poll. */
  readonly listen?: boolean
  /** Of `unique-key`: how long a lock that was handed over waits for its new holder, 3 s unless told. */
  readonly claimTtlMs?: Duration
}

type MysqlConfig = SqlConfig & {
  /** `unique-key` (leases in a table) unless told, `row` (a row lock) or `named` (GET_LOCK). */
  readonly strategy?: 'unique-key' | 'row' | 'named'
}

/** Defaults of all locks of a client, as `createLocks` takes them. Options given in code go before these. */
export type LockDefaults = Readonly<LockOptions> & {
  /** How long the store may fail or stay silent before a call gives up: 5 s unless told. */
  readonly storeTimeoutMs?: Duration
}

type WithDefaults = {
  /** Options of all locks of the client; those given in code go before them. */
  readonly defaults?: LockDefaults
}

type NamedAdapter = {
  [A in keyof AdapterConfigs]: { readonly adapter: A } & AdapterConfigs[A] & WithDefaults
}[keyof AdapterConfigs]

/** A module of the program's own, by its path; what else it takes is between the two. */
type OwnAdapter = {
  readonly adapter: `./${string}` | `../${string}` | `/${string}` | `file:${string}`
  readonly [option: string]: unknown
} & WithDefaults

/** One backend: a URL, or an adapter with its options. */
export type StoreConfig = string | NamedAdapter | OwnAdapter

/** Several backends by name. `default` is the one that is opened when none is asked for. */
export interface StoresConfig {
  /** Each by the name under which `openLocks(config, { store })` opens it. */
  readonly stores: Readonly<Record<string, StoreConfig>>
  /** Which of them is opened when none is asked for. Default: the only one. */
  readonly default?: string
}

/** One JSON value describes where locks are, everywhere: in `openLocks`, on the command line, in the suite. */
export type LocksConfig = StoreConfig | StoresConfig

/** The same, before anybody looked at it: what a file or another program gave. It is checked when it is used. */
export type UncheckedConfig = LocksConfig | ({ readonly adapter: string } & Readonly<Record<string, unknown>>)
