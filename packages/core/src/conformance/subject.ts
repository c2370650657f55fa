import type { UncheckedConfig } from '../config/types.ts'
import type { AdapterFactory } from '../adapter/spi.ts'
import type { Frames, Target } from './fault-proxy.ts'

/**
 * What the suite is run against. Only `name` and `config` are needed; the rest lets more rules run,
 * and a rule that cannot run is listed as untested with the reason.
 */
export interface Subject {
  /** Shown in reports. */
  readonly name: string
  /** From which clients are opened, here and in child processes; see `openLocks`. */
  readonly config: UncheckedConfig
  /**
   * For a store whose leases are as long as its session: what to lay over `config` for sessions that no busy
   * machine lets end. Clients of rules that are about the end of a hold go without it.
   */
  readonly lasting?: Readonly<Record<string, unknown>>
  /** Used in this process instead of `config`, for an adapter that has no module of its own. */
  readonly adapter?: AdapterFactory
  /** How to reach the store through a TCP proxy, for wire faults. */
  readonly wire?: Wire
  /** The server behind the store, when the run may stop it. */
  readonly server?: ServerControl
  /**
   * Process ids of the servers, where they run on this machine: how long they stood still is then read from the system.
   * Without it the suite asks the store every 100 ms how long an answer takes.
   */
  processes?(): readonly number[]
  /** Names what is left in the store for a lock name that is free, other than what is kept on purpose (a fence). */
  leftovers?(lock: string): Promise<readonly string[]>
  /** A password in `config` that must never show. */
  readonly secret?: string
  /** Lease length the rules work with, 1 s unless told: the session timeout of a session-backed store. */
  readonly ttlMs?: number
}

/** `config` with sessions that last, where the subject says how. */
export function lastingConfig({ lasting }: Subject, config: UncheckedConfig): UncheckedConfig {
  if (lasting === undefined) return config
  if (typeof config === 'string') throw new TypeError('lasting needs a config that is an object, not a URL')
  return { ...config, ...lasting }
}

export interface Wire {
  readonly target: Target
  /** The config of a client that connects to `proxy` in place of the target. */
  via(proxy: Target): UncheckedConfig
  /**
   * Where one reply of the server ends and the next begins, for rules that drop, double or insert one. Without it, what
   * arrives in one piece counts as one reply, which is right for clients with one request under way at a time.
   */
  readonly frames?: Frames
}

export interface ServerControl {
  pause(): void | Promise<void>
  resume(): void | Promise<void>
  /** Stops and starts again what keeps the locks, abruptly, with its data. Absent when its data would be gone. */
  restart?(): Promise<void>
}
