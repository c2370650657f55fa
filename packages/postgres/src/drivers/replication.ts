import { errors } from '../errors.ts'

/**
 * An operator may cancel the wait of a commit for its standby. The server reports success all the same, with a warning,
 * and a failover may undo the commit.
 */
export class Replication {
  #cancelled = false

  /** Call it with each notice of the server. Messages change with the locale. */
  readonly noticed = (notice: { readonly routine?: string | undefined }): void =>
    void (this.#cancelled ||= notice.routine === 'SyncRepWaitForLSN')

  /** Returns the reply to a statement. */
  checked<Reply>(reply: Reply): Reply {
    if (!this.#cancelled) return reply
    this.#cancelled = false
    throw errors.unavailable(
      'the wait for the synchronous standby was cancelled, and a failover may undo it: the outcome is unknown',
    )
  }
}
