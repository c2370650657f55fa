import { isVoidRun, VoidRunError } from './bounds.ts'

/** How often a run may be void before that counts as a failure. */
const RUNS = 3

/** Runs until a run is valid. One that is void each time is reported as such, and has not passed. */
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
    }
}
