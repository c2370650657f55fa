// Without imports: its types are public, and @locks/redis and ioredis may not be installed.

/** The part of an ioredis client, single or cluster, by which it is recognised. */
export interface RedisClient {
  readonly isCluster: boolean
  readonly status: string
  readonly options: object
  duplicate(...args: never[]): unknown
  disconnect(): void
}

/** Of the stores `redis` and `tair`: where the server is, by `url` or `client`. */
// <options RedisStoreOptions only redis>
export interface RedisStoreOptions {
  /** `redis://…`, `rediss://…` or `tair://…`; without `store` also `file:/path/to/directory`. */
  readonly url?: string
  /** An ioredis client of your own. It is not closed; hints come by a duplicate of it. */
  readonly client?: RedisClient
  /** In front of every key and channel. Default: `locks:cas:`. */
  readonly prefix?: string
}
// </options>
