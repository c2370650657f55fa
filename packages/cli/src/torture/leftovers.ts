import { isLockError } from '@locks/core'
import type { Locks } from '@locks/core'

/** Long enough on a busy machine. Only leases have a ttl to choose. */
const LASTING_MS = 60_000
const TRIES = 5
/** The least wait of each attempt: a dead holder may have to be observed. */
const MIN_WAIT_MS = 5_000
const BEAT_MS = 50
/** A wait in which this process stalled for longer does not count: it may not have polled again. */
const STALL_MS = 500

/** Reports the names that cannot be acquired soon after all workers are gone, or stay held afterwards. */
export async function leftovers(
  locks: Locks,
  names: readonly string[],
  withinMs: number,
): Promise<readonly string[]> {
  const until = performance.now() + withinMs
  const found = await Promise.all(
    names.map(async (name) => {
      try {
        return (await isHeldAfterRelease(locks, name, until))
          ? `${name} is held after its last release`
          : undefined
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error)
        return `${name} could not be acquired and released within ${withinMs} ms after the last worker: ${why}`
      }
    }),
  )
  return found.filter((one) => one !== undefined)
}

/** Only "held" means that something was left; other failures are those of this process or its connection. */
async function isHeldAfterRelease(locks: Locks, name: string, until: number): Promise<boolean> {
  const lasting = locks.capabilities.kind === 'lease' ? { ttlMs: LASTING_MS } : {}
  for (let tries = 1; ; tries += 1) {
    const stalledMs = stallMeter()
    try {
      const waitMs = Math.max(MIN_WAIT_MS, Math.round(until - performance.now()))
      const lease = await locks.lock(name).acquire({ waitMs, ...lasting })
      await lease.release()
      return (await locks.inspect(name)).held
    } catch (error) {
      const isHeld = isLockError(error) && error.code === 'LOCK_TIMEOUT' && stalledMs() < STALL_MS
      if (!isLockError(error) || isHeld || tries >= TRIES) throw error
    } finally {
      stalledMs()
    }
  }
}

/** Measures the longest stall of the event loop, until the returned function is called. */
function stallMeter(): () => number {
  let [last, longestMs] = [performance.now(), 0]
  const beat = (): void => {
    const now = performance.now()
    longestMs = Math.max(longestMs, now - last - BEAT_MS)
    last = now
  }
  const timer = setInterval(beat, BEAT_MS)
  return () => {
    beat()
    clearInterval(timer)
    return longestMs
  }
}
