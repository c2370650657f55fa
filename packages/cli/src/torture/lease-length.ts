import { setTimeout as pass } from 'node:timers/promises'
import type { Locks } from '@locks/core'

/** The length of a lease at this store: the caller cannot choose the length of a invocation. */
export async function leaseMsOf(locks: Locks, name: string): Promise<number> {
  const lease = await locks.lock(name).acquire()
  const ms = Math.ceil(lease.remainingMs)
  await lease.release()
  return ms
}

/**
 * Whether the store has no clock, so that each client observes a holder for the whole ttl before it counts as dead.
 * A client that never looked before then reports more remaining time than the holder itself.
 */
export async function isWatched(locks: Locks, open: () => Promise<Locks>, name: string): Promise<boolean> {
  const other = await open()
  try {
    const calledAt = performance.now()
    const lease = await locks.lock(name).acquire({ renew: false })
    // The store may count from any time until the reply.
    const tookMs = performance.now() - calledAt
    const ttlMs = lease.remainingMs
    await pass(ttlMs / 2)
    const leftMs = lease.remainingMs
    const { remainingMs = 0 } = await other.inspect(name)
    await lease.release().catch(() => undefined)
    return remainingMs > leftMs + tookMs + ttlMs / 10
  } finally {
    await other.close()
  }
}
