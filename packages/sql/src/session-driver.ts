import type { AcquireRequest, Holder } from '@locks/core/adapter'
import type { Line } from './line.ts'

/** One attempt, as the driver is told of it. */
export interface HoldInfo {
  readonly request: AcquireRequest
  /** Of this hold alone. The connection marks itself with it, so that everybody can see whether the hold lives. */
  readonly key: string
}

/** What one try came to. `missing`: what is to be locked must be made first. */
export type Tried = 'locked' | 'missing' | { readonly holder: Holder | undefined }

/**
 * How a server locks a name for a connection, and for nothing else: each step is a statement or two. Any of them may
 * reject; the connection is then given up, and what it held with it.
 */
export interface SessionDriver<L extends Line> {
  /** A new key, which nobody has used. */
  newKey(): string

  /**
   * One try, on a connection that holds nothing; never waits for another holder. Locks the name and marks the
   * connection with the key, and has the server end it when it is silent for longer than `silenceMs`.
   */
  tryLock(line: L, hold: HoldInfo, silenceMs: number): Promise<Tried>

  /** Makes what was missing, or finds it made by another. */
  make(line: L, hold: HoldInfo): Promise<void>

  /**
   * Gets in line for the name, as `tryLock` locks it. `queued` resolves once that is as good as done; `locked` when the
   * server grants it, with `false` when the name is to be tried anew.
   */
  queue(line: L, hold: HoldInfo): { readonly queued: Promise<unknown>; readonly locked: Promise<boolean> }

  /**
   * The next fence, committed on another connection: what the holding one wrote would be gone with it. Records the
   * holder. MUST find, in the same statement, that the key is still held; `undefined` when it is not.
   */
  mint(line: L, hold: HoldInfo): Promise<bigint | undefined>

  /** Proves that the connection lives, and allows it `silenceMs` from now on. */
  probe(line: L, silenceMs: number): Promise<void>

  /**
   * Frees everything that the connection holds. Resolves with whether that still was the hold, as the server has it:
   * `false` when it had lost it before.
   */
  free(line: L, hold: HoldInfo): Promise<boolean>

  /** Ends the statement by which a connection waits, from another connection. It may have ended by itself. */
  cancel(line: L): Promise<void>

  /** Whether the server still knows a connection that waits, as seen from another. */
  isThere(line: L): Promise<boolean>

  /** Who holds a name now; undefined when nobody does, or nobody is known yet. */
  holderOf(name: string): Promise<{ readonly attemptId: string; readonly holder: Holder } | undefined>

  /** Has the server end the connection by which that attempt holds the name, if it still does. */
  evict(name: string, attemptId: string): Promise<void>

  /** Whether the server says that it ended the connection, so that it never came to the statement that failed. */
  saysEnded(error: unknown): boolean

  /** Whether a wait ended for no reason of its own: cancelled, timed out, chosen by the deadlock detector. */
  isWorthAnotherTry(error: unknown): boolean
}
