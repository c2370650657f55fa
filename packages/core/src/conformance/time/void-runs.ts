import { isVoidRun, VoidRunError } from './bounds.ts'
import { stallMeter } from './stall-meter.ts'

/** How often a run may be void before that counts as a failure. */
const RUNS = 3
const CALM_WITHIN_MS = 15_000

/** Repeats a run until it is valid. If every run is void, it is reported as void and has not passed. */
export async function untilValid<T>(
  run: () => Promise<T>,
  onVoid: (why: VoidRunError) => void = () => undefined,
): Promise<T> {
  for (let n = 1; ; n += 1)
    try {
      return await run()
    } catch (error) {
      if (!isVoidRun(error)) throw error
      onVoid(error)
      if (n === RUNS)
        throw new VoidRunError(`in each of ${RUNS} runs, the last one: ${error.missed}`, error.stalls)
      // A short burst of load may pass; do not wait long for a lasting one.
      await stallMeter.calm(CALM_WITHIN_MS)
    }
}
