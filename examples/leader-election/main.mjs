import { isLockError, openLocks } from '@locks/core'
import { setTimeout as sleep } from 'node:timers/promises'

// The leader is the holder of the lock: the lease is renewed while it lives, and ends within its ttl when it does not.
const ttlMs = Number(process.env['TTL_MS'] ?? 10_000)
const locks = await openLocks(process.env['LOCKS_URL'] ?? 'file:locks', { ttlMs })
const office = locks.lock('leader')
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())

while (!stop.signal.aborted) {
  try {
    const lease = await office.acquire({ waitMs: 3_600_000, signal: stop.signal })
    console.log(`leading under fence ${lease.fence}`)
    try {
      await lead(AbortSignal.any([lease.signal, stop.signal]))
    } finally {
      // A lost lease cannot be released.
      if (lease.state === 'held' || lease.state === 'jeopardy') await lease.release()
      console.log(`stepped down from fence ${lease.fence}`)
    }
  } catch (error) {
    if (stop.signal.aborted) break
    if (!isLockError(error)) throw error
    console.error(error.message)
    await sleep(ttlMs / 10) // the store may be unreachable for a while
  }
}
await locks.close()

/**
 * What only a leader does, until `signal` aborts: the lock was lost, or the process is shutting down. Pass the
 * fence to everything it writes to.
 *
 * @param {AbortSignal} signal
 */
async function lead(signal) {
  while (!signal.aborted) await sleep(ttlMs / 20, undefined, { signal }).catch(() => undefined)
}
