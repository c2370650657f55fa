import { setTimeout as pass } from 'node:timers/promises'
import { stallMeter } from '@locks/core/conformance'

const LOOK_MS = 100
/** A run must end on a machine that never gets to it, too. */
const MOST_TIMES = 5

/** Measures how long these processes wait for a CPU, until the returned function is called. */
export function watchWorkers(pids: () => readonly number[]): () => void {
  const [stop, unwatch] = [stallMeter.start(), stallMeter.watch(pids)]
  return () => {
    stop()
    unwatch()
  }
}

/**
 * Waits until `isDone`, for `boundMs` and for the time in which the watched workers were ready to run and got no CPU.
 * Returns nothing when it is done, else how long it waited, in words.
 */
export async function patiently(
  boundMs: number,
  isDone: () => boolean,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const startedAt = performance.now()
  while (!isDone() && signal?.aborted !== true) {
    const tookMs = performance.now() - startedAt
    if (tookMs > boundMs) {
      const stalls = await stallMeter.since(tookMs)
      const lostMs = Math.round(Math.max(0, ...stalls.map(({ ms }) => ms)))
      if (isDone()) return undefined
      if (tookMs - lostMs > boundMs || tookMs > boundMs * MOST_TIMES)
        return `${Math.round(tookMs)} ms, in ${lostMs} of which the workers waited for a CPU`
    }
    await pass(LOOK_MS, undefined, signal && { signal }).catch(() => undefined)
  }
  return undefined
}
