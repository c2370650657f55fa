import { setTimeout as pass } from 'node:timers/promises'
import type { Lock, Locks } from '@locks/core'

/** How long a lease lasts at this store, which has its own limits. */
export async function leaseMsOf(locks: Locks, name: string): Promise<number> {
  const lease = await locks.lock(name).acquire()
  const ms = Math.ceil(lease.remainingMs)
  await lease.release()
  return ms
}

/** Where the holder gets its lease. */
interface Source {
  lock(name: string): Pick<Lock, 'acquire'>
}

/** Of a process that stands still again and again. */
const MOST_TRIES = 20

/**
 * Whether the store has no clock, so that each client observes a holder for the whole ttl before it counts as dead.
 * A client that never looked before then reports more remaining time than the holder itself.
 */
export async function isWatched(locks: Source, open: () => Promise<Locks>, name: string): Promise<boolean> {
  for (let tries = 1; tries <= MOST_TRIES; tries += 1) {
    const watched = await look(locks, open, name)
    if (watched !== undefined) return watched
  }
  throw new Error('cannot measure how long a hold lasts at this store: this machine stalls too often')
}

/** Undefined when a stall hides the difference: the hold took long to get, or ended before the other client looked. */
async function look(locks: Source, open: () => Promise<Locks>, name: string): Promise<boolean | undefined> {
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
    const isOver = lease.remainingMs <= 0
    await lease.release().catch(() => undefined)
    const mostMs = leftMs + tookMs + ttlMs / 10
    if (remainingMs > mostMs) return true
    return isOver || mostMs >= ttlMs ? undefined : false
  } finally {
    await other.close()
  }
}
