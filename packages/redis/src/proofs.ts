import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto'

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
