import { isLockError, openLocks } from '@locks/core'
import { setTimeout as sleep } from 'node:timers/promises'

// Runs on any number of hosts: one of them works on each tick. Only the lock is shared.
const tickMs = Number(process.env['TICK_MS'] ?? 60_000)
const locks = await openLocks(process.env['LOCKS_URL'] ?? 'file:locks')
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
console.log(`waiting for ticks in ${process.pid}`)

while (!stop.signal.aborted) {
  const tick = Math.floor(Date.now() / tickMs)
  await runOnce(tick)
  await sleep((tick + 1) * tickMs - Date.now(), undefined, { signal: stop.signal }).catch(() => undefined)
}
await locks.close()

/** @param {number} tick */
async function runOnce(tick) {
  // Long enough for clock differences and late hosts, and over before the next tick.
  const minHoldMs = Math.ceil(tickMs * 0.8)
  try {
    const outcome = await locks.once('nightly-report', { minHoldMs, signal: stop.signal }, (lease) =>
      report(tick, lease),
    )
    if (!outcome.ran)
      console.log(`tick ${tick} is done by ${outcome.holder?.metadata?.pid ?? 'another process'}`)
  } catch (error) {
    // The next tick tries again; only an unexpected error ends the process.
    if (isLockError(error)) console.error(error.message)
    else if (!stop.signal.aborted) throw error
  }
}

/**
 * @param {number} tick
 * @param {import('@locks/core').Lease} lease its signal aborts when the lock is lost
 */
async function report(tick, lease) {
  lease.signal.throwIfAborted()
  console.log(`tick ${tick} by ${process.pid} under fence ${lease.fence}`)
}
