import type { LockOptions } from './options.ts'

/** A length of time in config: whole milliseconds, or a text such as `'10s'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h'}`

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

type CasConfig =
  | { readonly store: 'file'; readonly directory: string; readonly trustFileSystem?: boolean }
  | { readonly store: 'redis' | 'tair'; readonly url: string; readonly prefix?: string }
  | { readonly store: 'memory'; readonly name?: string }
  | { readonly store?: never; readonly url: string; readonly prefix?: string }

type OneOf<T> = {
  [K in keyof T]: { readonly [P in K]: T[P] } & { readonly [P in Exclude<keyof T, K>]?: never }
}[keyof T]

/** Options of ioredis itself, as far as JSON can say them. */
type IoredisOptions = Readonly<Record<string, unknown>>

type RedisConfig = OneOf<{
  url: string
  connection: IoredisOptions
  cluster: {
    readonly nodes: readonly (string | number | IoredisOptions)[]
    readonly options?: IoredisOptions
  }
}> & {
  readonly prefix?: string
  readonly claimTtlMs?: Duration
  readonly waitForReplicas?: number
  readonly waitForReplicasMs?: Duration
  readonly serverSettings?: 'warn' | 'refuse' | 'ignore'
}

type RedlockConfig = OneOf<{ url: string; nodes: readonly (string | RedisConfig)[] }> & {
  readonly prefix?: string
  readonly quorum?: number
  readonly nodeTimeoutMs?: Duration
  readonly fencing?: boolean
}

type ZookeeperAuth = { readonly scheme: string; readonly credentials: string }
type ZookeeperAcl = { readonly scheme: string; readonly id: string; readonly permissions: number }

type ZookeeperConfig = OneOf<{ url: string; servers: string }> & {
  readonly auth?: ZookeeperAuth | readonly ZookeeperAuth[]
  readonly acl?: 'open' | 'creator' | readonly ZookeeperAcl[]
  readonly sessionTimeoutMs?: Duration
  readonly basePath?: string
  readonly rawPath?: boolean
}

type SqlConfig = {
  readonly url: string
  readonly schema?: string
  readonly table?: string
  readonly poolSize?: number
  /** For strategies that keep a connection for each holder. */
  readonly maxConnections?: number
  readonly sessionTtlMs?: Duration
}

type PostgresConfig = SqlConfig & {
  readonly strategy?: 'unique-key' | 'row'
  readonly listen?: boolean
  readonly claimTtlMs?: Duration
}

type MysqlConfig = SqlConfig & { readonly strategy?: 'unique-key' | 'row' | 'named' }

/** Defaults of all locks of a client, as `createLocks` takes them. Options given in code go before these. */
export type LockDefaults = Omit<Spelled<LockOptions>, 'retry'> & {
  readonly retry?: Spelled<NonNullable<LockOptions['retry']>>
  readonly storeTimeoutMs?: Duration
}

type Spelled<T> = { readonly [K in keyof T]: K extends `${string}Ms` ? Duration : T[K] }

type WithDefaults = { readonly defaults?: LockDefaults }

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
  readonly stores: Readonly<Record<string, StoreConfig>>
  readonly default?: string
}

/** One JSON value describes where locks are, everywhere: in `openLocks`, on the command line, in the suite. */
export type LocksConfig = StoreConfig | StoresConfig

/** The same, before anybody looked at it: what a file or another program gave. It is checked when it is used. */
export type UncheckedConfig = LocksConfig | ({ readonly adapter: string } & Readonly<Record<string, unknown>>)
