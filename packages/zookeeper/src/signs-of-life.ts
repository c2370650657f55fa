import { safeTtlMs } from '@locks/core/adapter'

/** A server that is silent for longer while a request is pending is left for another one. */
const MAX_SILENCE_MS = 4_000

/**
 * The same before the first session: nothing can be lost yet, and giving a connection up leaves a session at the
 * server. Below the time that a call waits for a connection, so that it also reaches another server.
 */
const FIRST_SILENCE_MS = 1_500

/** What is known of a session's life by the answers of its servers, and what follows from them by the clock. */
export class SignsOfLife {
  #id: Buffer | undefined
  #timeoutMs: number
  /** When the last request was sent that any server answered. */
  #aliveAt: number
  #provenAt = -Infinity
  #answeredAt = -Infinity
  #connectingSince: number

  constructor(timeoutMs: number, now: number) {
    this.#timeoutMs = timeoutMs
    this.#aliveAt = this.#connectingSince = now
  }

  /** As negotiated with the server. */
  get timeoutMs(): number {
    return this.#timeoutMs
  }

  /**
   * How long a hold can be relied on after the leader answered. The answer shows that the leader knew the session, not
   * from when it counts the timeout: signs of life reach it through the client's server, up to half a tick late, and
   * never if that server is cut off just then. So it may count from the sign before, up to two fifths of the timeout
   * earlier; see `hasLapsed`. Half of the timeout leaves a tenth for the half tick.
   */
  get reliableMs(): number {
    return Math.floor(this.#timeoutMs / 2)
  }

  /** When the last request was sent that the leader answered. */
  get provenAt(): number {
    return this.#provenAt
  }

  /** How long a server may be silent. */
  get silenceMs(): number {
    const silenceMs = Math.min(this.#timeoutMs / 3, MAX_SILENCE_MS)
    return this.#id === undefined ? Math.max(silenceMs, FIRST_SILENCE_MS) : silenceMs
  }

  isMine(ephemeralOwner: Buffer): boolean {
    return this.#id?.equals(ephemeralOwner) ?? false
  }

  /** There is a connection. Returns false if its session or timeout is not the one that holds were granted with. */
  connected(id: Buffer, timeoutMs: number): boolean {
    if (this.#id !== undefined && (!this.#id.equals(id) || timeoutMs < this.#timeoutMs)) return false
    this.#id = id
    this.#timeoutMs = timeoutMs
    this.#aliveAt = Math.max(this.#aliveAt, this.#connectingSince)
    return true
  }

  /** There is no connection, and one is tried from `now` on. */
  connecting(now: number): void {
    this.#connectingSince = now
  }

  /** A request was answered; `written` when the answer came from the leader. */
  answered(sentAt: number, written: boolean, now: number): void {
    this.#answeredAt = now
    this.#aliveAt = Math.max(this.#aliveAt, sentAt)
    if (written) this.#provenAt = Math.max(this.#provenAt, sentAt)
  }

  /** When an idle connection must be tried, well before the last sign of life has lapsed. */
  get staleAt(): number {
    return this.#aliveAt + this.#timeoutMs / 4
  }

  /** Whether the last sign of life is so old that an answer of the leader would prove less than `reliableMs`. */
  hasLapsed(now: number): boolean {
    return now - this.#aliveAt > (this.#timeoutMs * 2) / 5
  }

  /** Whether the connected server is silent; `oldest` is when the oldest pending request was sent. */
  isSilent(oldest: number, now: number): boolean {
    // With many pending requests the oldest may be old while the server is still answering others.
    return now - Math.max(oldest, this.#answeredAt) >= this.silenceMs
  }

  /** Whether the server that is tried has not let this client connect for too long. */
  isUnreachable(now: number): boolean {
    return now - this.#connectingSince >= this.silenceMs
  }

  /**
   * When a session without a connection counts as lost. Holds must end before the leader can end the session; without a
   * hold, the place in the queue is worth the wait.
   */
  lostAt(holding: boolean): number {
    if (this.#id === undefined) return this.#aliveAt + Math.max(this.#timeoutMs, MAX_SILENCE_MS)
    return holding ? this.#provenAt + safeTtlMs(this.reliableMs) : this.#aliveAt + this.#timeoutMs
  }
}
