import { Wake } from '@locks/core/adapter'
import type { AcquireRequest, Clock, PushedGrant } from '@locks/core/adapter'
import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto'

/** A grant as the release that made it publishes it: `attempt fence µs claim lock proof`. Anyone may have sent it. */
export interface GrantMessage {
  readonly attemptId: string
  readonly fence: bigint
  /** By the server's clock, in µs. */
  readonly madeAt: number
  readonly ttlMs: number
  /** Key of the lock. */
  readonly lock: string
  /** The message without its proof. */
  readonly text: string
  /** Empty if there is none. */
  readonly proof: string
}

/** Worth a look after a while: `attempt ms` when another client's claim ends, `attempt` on Redisson's turn. */
export interface Hint {
  readonly attemptId: string
  readonly inMs: number | undefined
}

const attempt = String.raw`([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}:\d{1,19})`
const grantForm = new RegExp(
  String.raw`^(${attempt} (\d{1,16}) (\d{16}) (\d{1,9}) (.+?))(?: ([\da-f]{40}))?$`,
  's',
)
const hintForm = new RegExp(String.raw`^${attempt}(?: (\d{1,9}))?$`)

/** Undefined for a text of neither form. */
export function readMessage(message: string): GrantMessage | Hint | undefined {
  const hint = hintForm.exec(message)
  if (hint !== null) {
    const [, attemptId = '', inMs] = hint
    return { attemptId, inMs: inMs === undefined ? undefined : Number(inMs) }
  }
  const grant = grantForm.exec(message)
  if (grant === null) return undefined
  const [, text = '', attemptId = '', fence = '', madeAt, ttlMs, lock = '', proof = ''] = grant
  return { attemptId, fence: BigInt(fence), madeAt: Number(madeAt), ttlMs: Number(ttlMs), lock, text, proof }
}

/** 128 bits: an entry of the queue should stay short. */
const SECRET_LENGTH = 22

/**
 * Distinguishes grants of the store from messages of other publishers. Every entry of a queue carries a secret that
 * only the store and this client know; a grant ends with a hash keyed with it. Secrets are derived from one key, so
 * that none has to be remembered: a grant may also come for a withdrawn attempt.
 */
export class Proofs {
  readonly #key = randomBytes(32)

  secretOf(lock: string, attemptId: string): string {
    const text = `${attemptId} ${lock}`
    return createHmac('sha256', this.#key).update(text).digest('base64url').slice(0, SECRET_LENGTH)
  }

  /** Whether `proof` is the store's for `text`, a grant of `lock` to `attemptId`. */
  isValid(lock: string, attemptId: string, text: string, proof: string): boolean {
    const secret = this.secretOf(lock, attemptId)
    // As `redis.sha1hex` does it in the scripts.
    const expected = hash('sha1', secret + hash('sha1', secret + text))
    return proof.length === expected.length && timingSafeEqual(Buffer.from(proof), Buffer.from(expected))
  }
}

/** Anyone may send hints, so they make a waiter look no more often than this. */
const HINT_EVERY_MS = 50

/** One attempt in the queue of a lock. */
export class Waiter {
  readonly request: AcquireRequest
  readonly #clock: Clock
  readonly #wake: Wake
  /** The last exchange with the server: when it was sent, by this clock, and when that was by the server's. */
  #exchange: { readonly sentAt: number; readonly serverTime: number } | undefined
  #message: GrantMessage | undefined
  /** The earliest time for the next look because of a hint. */
  #hintedAfter = 0

  constructor(request: AcquireRequest, clock: Clock) {
    this.request = request
    this.#clock = clock
    this.#wake = new Wake(clock)
  }

  exchanged(sentAt: number, serverTime: number): void {
    this.#exchange = { sentAt, serverTime }
  }

  granted(message: GrantMessage): void {
    this.#message = message
    this.wake()
  }

  /** Worth trying again. */
  wake(): void {
    this.#wake.wake()
  }

  /** Perhaps worth trying again in a while. */
  hint(ms: number): void {
    this.#wake.wakeBy(Math.max(this.#clock.now() + ms, this.#hintedAfter))
  }

  /** The server may be another one now, with another clock. */
  doubt(): void {
    this.#exchange = undefined
    this.#message = undefined
    this.wake()
  }

  /** Listens on Redisson's channel, where it publishes releases. */
  readonly redissonReleased = (text: string | undefined): void =>
    text === undefined ? this.doubt() : this.hint(0)

  /** Until it is granted, woken or aborted, or `maxMs` are over. */
  async wait(maxMs: number, signal: AbortSignal): Promise<PushedGrant | undefined> {
    const how = await this.#wake.sleep(maxMs, { signal })
    if (how === 'due') this.#hintedAfter = this.#clock.now() + HINT_EVERY_MS
    return this.#grant()
  }

  /**
   * A lower bound of when the grant was made: when the exchange was sent, plus the time that has passed on the server
   * since. A grant that is read after a long pause so shows as over, and is worth no more than a look.
   */
  #grant(): PushedGrant | undefined {
    const [message, exchange] = [this.#message, this.#exchange]
    this.#message = undefined
    if (message === undefined || exchange === undefined) return undefined
    const mapped = exchange.sentAt + (message.madeAt - exchange.serverTime) / 1_000
    const { name } = this.request
    const { attemptId, fence, ttlMs } = message
    const now = this.#clock.now()
    if (mapped + ttlMs <= now) return undefined
    return { name, attemptId, fence, ttlMs, grantedAt: Math.min(mapped, now) }
  }
}
