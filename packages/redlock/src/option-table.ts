import type { Duration } from '@locks/core/adapter'
import type { RedisOptions } from '@locks/redis'

export const declared = {
  adapter: '@locks/redlock',
  example: "{ nodes: ['redis://a', 'redis://b', 'redis://c'] }",
  options: {
    /** Three, five or any number of independent primaries, by URL or as for `@locks/redis`. */
    nodes: {
      kind: 'value',
      must: 'be a list of servers',
      type: 'readonly (string | RedisOptions)[]',
      json: 'readonly (string | RedisConfig)[]',
      place: true,
    },
    /** `redlock://[user:password@]host:port,host:port,…[/db]` or `redlock:redis://…,redis://…`. */
    url: {
      kind: 'text',
      must: 'be redlock://[user:password@]host:port,host:port,…[/db] or redlock:redis://…,redis://…',
      place: true,
    },
    /** In front of every lock name and of a node's own prefix. With `''` names are shared with Redisson. */
    prefix: { kind: 'text', otherwise: "the nodes' own, which is `locks:`", inUrl: true },
    /** How many nodes must agree: at least a majority. */
    quorum: { kind: 'integer', range: [1, 1_000], otherwise: 'a majority', inUrl: true },
    /** How long a node may be silent before it counts as failed. */
    nodeTimeoutMs: { kind: 'duration', range: [10, 60_000], default: 1_000, inUrl: true },
    /** `false` saves the round trip that makes fences rise across majorities. */
    fencing: { kind: 'boolean', default: true, inUrl: true },
    /** Time without a grant after which a node drops the fence of a name, by its own clock. 0: never. */
    fenceIdleMs: {
      kind: 'duration',
      range: [1_000, 31_536_000_000],
      zero: true,
      otherwise: "the nodes' own, a day",
      inUrl: true,
    },
  },
} as const

/** Independent servers, none a replica of another, and how many of them must agree. */
// <options RedlockOptions>
export interface RedlockOptions {
  /** Three, five or any number of independent primaries, by URL or as for `@locks/redis`. */
  readonly nodes?: readonly (string | RedisOptions)[]
  /** `redlock://[user:password@]host:port,host:port,…[/db]` or `redlock:redis://…,redis://…`. */
  readonly url?: string
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
// </options>
