export type Mode = 'exclusive'

/**
 * What an adapter supports, as values that programs, types and the conformance suite read. Each value is a promise: the
 * suite tests what is claimed, and that anything else is refused with `LOCK_UNSUPPORTED` before the store is touched.
 */
export interface Capabilities {
  /** Who excludes each other: tasks of one process, processes of one host, or all clients of the store. */
  readonly scope: 'process' | 'host' | 'cluster'
  /**
   * `lease`: the store forgets a holder after its ttl.
   * `session`: the store forgets a holder when its session times out, not before. The ttl is that of the session; the
   * caller's is ignored.
   * `connection`: the store forgets a holder as soon as its connection ends, at any moment. The holder finds out when
   * its socket closes, at most `ttlMs` after the last sign of life. Until then two clients may rely on the lock, and
   * the fence identifies the stale holder.
   */
  readonly kind: 'lease' | 'session' | 'connection'
  /**
   * `durable`: strictly increasing, even across crashes. `clock-assisted`: also after the store lost its counter, as
   * long as its clock did not go back. `none`: switched off by an option.
   */
  readonly fencing: 'durable' | 'clock-assisted' | 'none'
  /**
   * `handoff`: a release gives the lock to the next waiter in the store.
   * `notify`: a release wakes waiters, which try again. `poll`: waiters try again with back-off.
   */
  readonly wait: 'handoff' | 'notify' | 'poll'
  /** `fifo`: clients that wait at the store get the lock in the order in which they began to wait. */
  readonly fairness: 'fifo' | 'none'
  /** A lease can be serialized and resumed in another process. */
  readonly handover: boolean
  /** The name can stay blocked for a while after an abnormal end. Not with a session or a connection. */
  readonly lockDelay: boolean
  /** The name can stay held for a while after a normal release, even if the process that released it has ended. */
  readonly minHold: boolean
  /** The store can list the locks that are held. */
  readonly list: boolean
  /** An operator can end the hold of another client. */
  readonly break: boolean
  readonly modes: readonly Mode[]
  readonly minTtlMs: number
  readonly maxNameBytes: number
}

/** The minimum: a table or a file that all clients reach and waiters poll. */
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

/** All capabilities of an adapter that declares `Given`, as literal types. */
export type CapabilitiesOf<Given extends Partial<Capabilities>> = {
  readonly [Key in keyof Capabilities]: Key extends keyof Given
    ? Extract<Given[Key], Capabilities[Key]>
    : (typeof least)[Key]
}

/**
 * The capabilities of an adapter, of which only the differences from the minimum are given.
 *
 *     const given = { wait: 'handoff', fairness: 'fifo', list: true } as const
 *     export type EtcdCapabilities = CapabilitiesOf<typeof given>
 *     export const etcdCapabilities: EtcdCapabilities = capabilities(given)
 */
export function capabilities<const Given extends Partial<Capabilities>>(given: Given): CapabilitiesOf<Given>
export function capabilities(given: Partial<Capabilities>): Capabilities {
  return { ...least, ...given }
}
