import { isLockError, openLocks } from '@locks/core'
import { appendFile, readFile, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

// Started in as many processes as you like: each tick is worked on once.
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
  try {
    await locks.with('nightly-report', { waitMs: tickMs, signal: stop.signal }, async (lease) => {
      // Whoever was here before may have done this tick, or died before the end of it.
      const done = Number(await readFile('last-tick.txt', 'utf8').catch(() => '-1'))
      if (done >= tick) return
      await report(tick, lease.signal)
      lease.assertHeld()
      await writeFile('last-tick.txt', String(tick))
    })
  } catch (error) {
    // The next tick is another chance; only what we cannot explain ends the process.
    if (isLockError(error)) console.error(error.message)
    else if (!stop.signal.aborted) throw error
  }
}

/**
 * @param {number} tick
 * @param {AbortSignal} signal aborts when the lock is lost
 */
async function report(tick, signal) {
  signal.throwIfAborted()
  await appendFile('reports.txt', `${tick}\n`)
  console.log(`tick ${tick} by ${process.pid}`)
}
