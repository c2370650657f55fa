import { describe, expect, test } from 'vitest'
import { capabilities } from '../../src/adapter/capabilities.ts'
import type { Adapter, AcquireRequest, AdapterFactory } from '../../src/adapter/spi.ts'
import { createLocks } from '../../src/index.ts'
import { codeOf, lockErrorOf, thrownCode } from '../support/harness.ts'

interface Held {
  readonly request: AcquireRequest
  readonly fence: bigint
}

/** The smallest adapter: four methods over a map. Its holds do not expire. */
function minimal(held: Map<string, Held>): Adapter {
  let fence = 0n
  return {
    capabilities: capabilities({ scope: 'process' }),
    async attempt(request) {
      const { name, attemptId, ttlMs } = request
      const own = held.get(name) ?? { request, fence: (fence += 1n) }
      if (own.request.attemptId !== attemptId) return { busy: true }
      held.set(name, own)
      return { name, attemptId, ttlMs, fence: own.fence }
    },
    renew: async (renewals) =>
      renewals.map(({ grant: { name, attemptId } }) =>
        held.get(name)?.request.attemptId === attemptId ? 'renewed' : 'lost',
      ),
    async release({ name, attemptId }) {
      if (held.get(name)?.request.attemptId !== attemptId) return 'not-held'
      held.delete(name)
      return 'released'
    },
    async inspect(name) {
      const found = held.get(name)
      if (found === undefined) return { name, held: false }
      return { name, held: true, holder: { owner: found.request.owner, fence: found.fence } }
    },
  }
}

describe('an adapter of four methods', () => {
  test('excludes, waits by polling, renews, releases and closes', async () => {
    const held = new Map<string, Held>()
    const locks = createLocks(() => minimal(held))
    const other = createLocks(() => minimal(held))
    const lease = await locks.lock('a').acquire()
    expect(await other.lock('a').tryAcquire()).toBeNull()
    const next = other.lock('a').acquire()
    await lease.extend()
    await lease.release()
    await (await next).release()
    await Promise.all([locks.close(), other.close()])
    expect(held.size).toBe(0)
  })

  test('releases in place of a withdrawal, and only what the request itself was granted', async () => {
    const held = new Map<string, Held>()
    let loseReply = true
    const factory: AdapterFactory = () => {
      const inner = minimal(held)
      return {
        ...inner,
        async attempt(request) {
          const answer = await inner.attempt(request)
          if (loseReply) throw new Error('the reply was lost')
          return answer
        },
      }
    }
    const locks = createLocks(factory, { storeTimeoutMs: 100 })
    expect((await lockErrorOf(locks.lock('a').acquire())).code).toBe('LOCK_UNAVAILABLE')
    loseReply = false
    const lease = await locks.lock('a').acquire()
    loseReply = true
    const other = createLocks(factory, { storeTimeoutMs: 100 })
    expect(codeOf(await lockErrorOf(other.lock('a').acquire()))).toBe('LOCK_UNAVAILABLE')
    await other.close()
    expect(held.get('a')?.fence).toBe(lease.fence)
    await locks.close()
  })

  test.each([{ wait: 'handoff' }, { fairness: 'fifo' }] as const)(
    'is refused when it claims a queue: %o',
    (claim) => {
      const factory: AdapterFactory = () => ({ ...minimal(new Map()), capabilities: capabilities(claim) })
      expect(thrownCode(() => createLocks(factory))).toBe('LOCK_INVALID_ARGUMENT')
    },
  )
})
