export type Mode = 'exclusive'

/**
 * What an adapter can do, as values that programs, types and the conformance suite all read.
 * A value here is a promise: the suite tests what is claimed and that what is not claimed is
 * refused with `LOCK_UNSUPPORTED` before anything is touched.
 */
export interface Capabilities {
  /** Who excludes whom: tasks of one process, processes of one host, or everyone who reaches the store. */
  readonly scope: 'process' | 'host' | 'cluster'
  /**
   * `lease`: the store forgets a holder after its ttl.
   * `session`: the store forgets a holder after its session timeout without a sign of life, not before. The ttl is the
   * session's, whatever the caller asked for.
   * `connection`: the store forgets a holder as soon as the connection that holds ends, at any moment. The holder
   * learns of it when its socket does, at the latest `ttlMs` after the last proof of life: for so long two may rely on
   * the lock, and the fence identifies the stale one.
   */
  readonly kind: 'lease' | 'session' | 'connection'
  /**
   * `durable`: strictly increasing whatever crashes. `clock-assisted`: also after the counter was
   * lost, as long as the store's clock did not go back. `none`: switched off by the user.
   */
  readonly fencing: 'durable' | 'clock-assisted' | 'none'
  /**
   * `handoff`: a release gives the lock to the next waiter in the store.
   * `notify`: a release wakes waiters, who try again. `poll`: waiters try again by back-off.
   */
  readonly wait: 'handoff' | 'notify' | 'poll'
  /** `fifo`: clients that wait at the store are served in the order they began to. */
  readonly fairness: 'fifo' | 'none'
  /** A lease can be serialised and resumed in another process. */
  readonly handover: boolean
  /** The name can stay blocked for a while after an abnormal end. Not with a session or a connection. */
  readonly lockDelay: boolean
  /** The name can stay taken for a while after a normal release, also when the process that released it has ended. */
  readonly minHold: boolean
  /** The store can name the locks that are held. */
  readonly list: boolean
  /** An operator can end somebody else's hold. */
  readonly break: boolean
  readonly modes: readonly Mode[]
  readonly minTtlMs: number
  readonly maxNameBytes: number
}

/** Of the least that an adapter can be: a table or a file that everyone reaches, which waiters look at again and again. */
const least = {
  scope: 'cluster',
  kind: 'lease',
  fencing: 'durable',
  wait: 'poll',
  fairness: 'none',
  handover: false,
  lockDelay: false,
  minHold: false,
  list: false,
  break: false,
  modes: ['exclusive'],
  minTtlMs: 100,
  maxNameBytes: 1024,
} as const

/** All capabilities of an adapter that states `Given`, each with the very value it has. */
export type CapabilitiesOf<Given extends Partial<Capabilities>> = {
  readonly [Key in keyof Capabilities]: Key extends keyof Given
    ? Extract<Given[Key], Capabilities[Key]>
    : (typeof least)[Key]
}

/**
 * What an adapter can do, by what is more or other than the least: a durable lease that everyone reaches, by polling.
 *
 *     const given = { wait: 'handoff', fairness: 'fifo', list: true } as const
 *     export type EtcdCapabilities = CapabilitiesOf<typeof given>
 *     export const etcdCapabilities: EtcdCapabilities = capabilities(given)
 */
export function capabilities<const Given extends Partial<Capabilities>>(given: Given): CapabilitiesOf<Given>
export function capabilities(given: Partial<Capabilities>): Capabilities {
  return { ...least, ...given }
}
