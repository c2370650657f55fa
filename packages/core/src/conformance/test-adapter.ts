import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { setTimeout as pass } from 'node:timers/promises'
import { defaultOwner, newAttemptId } from '../adapter/attempt-id.ts'
import { systemClock } from '../adapter/time.ts'
import { fallbacksOf } from '../adapter/fallbacks.ts'
import type { CompleteAdapter } from '../adapter/fallbacks.ts'
import { isLockError } from '../adapter/lock-error.ts'
import type {
  AcquireRequest,
  AdapterFactory,
  AdapterHost,
  Grant,
  Renewal,
  RenewOutcome,
} from '../adapter/spi.ts'

/** An adapter without core, with requests like those of core. */
export interface TestAdapter {
  readonly adapter: CompleteAdapter
  /** A new attempt of this client. Default `ttlMs`: half a minute. */
  readonly request: (lock: string, options?: Partial<AcquireRequest>) => AcquireRequest
  /** Attempts, and fails unless it is granted. Like core, it tries again while the store cannot be reached. */
  readonly take: (request: AcquireRequest) => Promise<Grant>
  /** Renews one hold. Like core, it tries again while the outcome is unknown. */
  readonly renew: (renewal: Renewal) => Promise<RenewOutcome>
}

/** For the first connection, which may take longer than an adapter waits for it. */
const PATIENCE_MS = 10_000

/** The adapter of a separate client, without core. */
export function openTestAdapter(factory: AdapterFactory, host: Partial<AdapterHost> = {}): TestAdapter {
  const { clientId = randomUUID(), clock = systemClock, report = () => undefined } = host
  const inner = factory({ clientId, clock, report })
  const adapter: CompleteAdapter = Object.assign(inner, fallbacksOf(inner))
  return {
    adapter,
    request(lock, options) {
      const attemptId = newAttemptId(clientId)
      const metadata = { host: 'conformance', pid: process.pid }
      const owner = defaultOwner(attemptId)
      const usual = { owner, mode: 'exclusive', ttlMs: 30_000, lockDelayMs: 0 } as const
      return { name: lock, attemptId, ...usual, willWait: false, metadata, ...options }
    },
    async take(wanted) {
      const answer = await whenReachable(() => adapter.attempt(wanted))
      assert.ok('fence' in answer, `expected a grant of ${wanted.name}, got busy`)
      return answer
    },
    async renew(renewal) {
      const giveUpAt = performance.now() + PATIENCE_MS
      for (;;) {
        const [outcome = 'unknown'] = await whenReachable(() => adapter.renew([renewal]))
        if (outcome !== 'unknown' || performance.now() >= giveUpAt) return outcome
        await pass(50)
      }
    },
  }
}

async function whenReachable<T>(call: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + PATIENCE_MS
  for (;;)
    try {
      return await call()
    } catch (error) {
      if (!isLockError(error, 'LOCK_UNAVAILABLE') || performance.now() >= giveUpAt) throw error
      await pass(50)
    }
}
