import type { UncheckedConfig } from '../config/types.ts'
import type { LockErrorCode } from '../adapter/lock-error.ts'
import type { LeaseState } from '../engine/hold.ts'
import type { LocksOptions } from '../api/options.ts'
import type { ContendOptions, Contention } from './contend.ts'
import type { Gap } from './time/heartbeat.ts'
import type { Stalled, StallOptions } from './stall.ts'

interface Call<Args, Result> {
  readonly args: Args
  readonly result: Result
}

/** A lease in a child process, identified by a number. */
export interface ChildLease {
  readonly lease: number
  readonly fence: bigint
}

export interface ChildAcquireOptions {
  readonly ttlMs?: number
  readonly waitMs?: number
  readonly renew?: boolean
  readonly lockDelayMs?: number
  readonly minHoldMs?: number
  readonly owner?: string
  readonly label?: string
}

/** What a child process can do for its parent. */
export interface ChildCalls {
  open: Call<{ config: UncheckedConfig; options: LocksOptions }, void>
  acquire: Call<{ lock: string; options?: ChildAcquireOptions }, ChildLease>
  tryAcquire: Call<{ lock: string; options?: ChildAcquireOptions }, ChildLease | null>
  /** Whether an acquire of that name has found another holder so far. */
  contended: Call<{ lock: string }, boolean>
  release: Call<{ lease: number }, void>
  extend: Call<{ lease: number }, void>
  state: Call<{ lease: number }, { state: LeaseState; remainingMs: number }>
  assertHeld: Call<{ lease: number }, void>
  serialize: Call<{ lease: number }, string>
  resume: Call<{ text: string }, ChildLease>
  /** Starts protected steps in a tight loop, each recorded, until the lease is no longer held. */
  work: Call<{ lease: number; process: string; file: string }, void>
  /** Runs `contend` with a counter in a file. */
  contend: Call<
    Omit<ContendOptions, 'recorder' | 'counter'> & { process: string; file: string; counter: string },
    Contention
  >
  /** Holds a lock while its event loop is blocked. */
  stall: Call<StallOptions, Stalled>
  /** Calls a function that a module exports, for programs that are not about a lock client. */
  run: Call<{ module: string; name: string; args: unknown }, unknown>
  /** How many timers keep the process alive. */
  timers: Call<Record<string, never>, number>
  close: Call<Record<string, never>, void>
  /** Closes the client and drops its leases, so that the process can serve another case. */
  reset: Call<Record<string, never>, void>
  /** Disconnects from the parent: the process then ends if nothing else keeps it alive. */
  disconnect: Call<Record<string, never>, void>
}

export interface ChildRequest {
  readonly id: number
  readonly name: keyof ChildCalls
  readonly args: never
}

/** What a child reports without being asked: when it was paused. */
export interface ChildReport {
  readonly gaps: readonly Gap[]
}

export type ChildReply =
  | { readonly id: number; readonly result: never }
  | { readonly id: number; readonly error: { readonly code?: LockErrorCode; readonly message: string } }
