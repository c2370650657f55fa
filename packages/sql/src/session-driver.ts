import type { AcquireRequest, Holder, LockState } from '@locks/core/adapter'
import type { Connection } from './connection.ts'

/** What a driver knows of one attempt. */
export interface HoldInfo {
  readonly request: AcquireRequest
  /** Unique to this hold. The connection marks itself with it, so that any session can see whether the hold lives. */
  readonly key: string
}

/** The result of one try. `missing`: the row to be locked must be made first. */
export type Tried = 'locked' | 'missing' | { readonly holder: Holder | undefined }

/**
 * How a server locks a name for a connection, and for nothing else. Each step is a statement or two. Any of them may
 * reject; the connection is then closed, which ends everything it held.
 */
export interface SessionDriver<C extends Connection> {
  /** A new, unused key. */
  newKey(): string

  /**
   * One try, on a connection that holds nothing. Never waits for another holder. Locks the name, marks the connection
   * with the key, and has the server end the connection once it is silent for longer than `silenceMs`.
   */
  tryLock(connection: C, hold: HoldInfo, silenceMs: number): Promise<Tried>

  /** Makes the missing row, or finds it made by another session. */
  make(connection: C, hold: HoldInfo): Promise<void>

  /**
   * Enters the server's queue for the name, which it then locks as `tryLock` does. `queued` resolves once the place in
   * the queue is taken; `locked` when the server grants the lock, with `false` when the name must be tried again.
   */
  queue(
    connection: C,
    hold: HoldInfo,
  ): { readonly queued: Promise<unknown>; readonly locked: Promise<boolean> }

  /**
   * Records the holder and returns the next fence. Commits on another connection: what the holding one writes is gone
   * when it ends. MUST check in the same statement that the key is still held; `undefined` when it is not.
   */
  mint(connection: C, hold: HoldInfo): Promise<bigint | undefined>

  /** Checks that the connection lives, and allows it `silenceMs` of silence from now on. */
  probe(connection: C, silenceMs: number): Promise<void>

  /** Releases everything the connection holds. Resolves with whether it still had the hold, according to the server. */
  free(connection: C, hold: HoldInfo): Promise<boolean>

  /** Ends, from another connection, the statement with which this one waits. It may have ended already. */
  cancel(connection: C): Promise<void>

  /** Whether the server still has a connection that waits, as seen from another one. */
  isThere(connection: C): Promise<boolean>

  /** Who holds a name now; undefined when it is free, or the holder is not recorded yet. */
  holderOf(name: string): Promise<{ readonly attemptId: string; readonly holder: Holder } | undefined>

  /** The names that are held now, at most `limit` of them. */
  list(limit: number): Promise<readonly LockState[]>

  /**
   * Has the server end the connection with which that attempt holds the name, which takes a moment. Resolves with
   * whether it still held it.
   */
  breakHold(name: string, attemptId: string): Promise<boolean>

  /** Whether the server reports that it had ended the connection before the statement that failed. */
  saysEnded(error: unknown): boolean

  /** Whether a wait was cancelled, timed out or chosen by the deadlock detector: it can simply be tried again. */
  isWorthAnotherTry(error: unknown): boolean
}
