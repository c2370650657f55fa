import type { UncheckedConfig } from '../config/types.ts'
import type { AdapterFactory } from '../adapter/spi.ts'
import type { Frames, Target } from './fault-proxy.ts'

/**
 * What the suite tests. Only `name` and `config` are required; the rest lets more rules run. A rule that cannot run is
 * listed as untested, with the reason.
 */
export interface Subject {
  /** Shown in reports. */
  readonly name: string
  /** The config of clients, here and in child processes; see `openLocks`. */
  readonly config: UncheckedConfig
  /**
   * For a store whose leases are as long as its session: merged over `config` for sessions that do not end even on a
   * busy machine. Not used by rules about the end of a hold.
   */
  readonly lasting?: Readonly<Record<string, unknown>>
  /** Used in this process instead of `config`, for an adapter without its own module. */
  readonly adapter?: AdapterFactory
  /** How to reach the store through a TCP proxy, for wire faults. */
  readonly wire?: Wire
  /** The server of the store, if the run may stop it. */
  readonly server?: ServerControl
  /**
   * Process ids of the servers, if they run on this machine: the system then reports how long they were paused. Without
   * it, the suite measures every 100 ms how long the store takes to answer.
   */
  processes?(): readonly number[]
  /** Lists what is left in the store for a free lock name, except what is kept on purpose (a fence). */
  leftovers?(lock: string): Promise<readonly string[]>
  /** A password in `config` that must never be shown. */
  readonly secret?: string
  /** Lease length in rules; for a session-backed store its session timeout. Default: 1 s. */
  readonly ttlMs?: number
}

/** `config` with long sessions, if the subject defines them. */
export function lastingConfig({ lasting }: Subject, config: UncheckedConfig): UncheckedConfig {
  if (lasting === undefined) return config
  if (typeof config === 'string') throw new TypeError('lasting needs a config that is an object, not a URL')
  return { ...config, ...lasting }
}

export interface Wire {
  readonly target: Target
  /** The config of a client that connects to `proxy` instead of the target. */
  via(proxy: Target): UncheckedConfig
  /**
   * Splits the bytes of the server into replies, for rules that drop, double or insert one. Without it, each chunk
   * counts as one reply, which is correct for clients with one request under way at a time.
   */
  readonly frames?: Frames
}

export interface ServerControl {
  pause(): void | Promise<void>
  resume(): void | Promise<void>
  /** Restarts the server abruptly, with its data. Absent if its data would be lost. */
  restart?(): Promise<void>
}
