import type { Locks } from '@locks/core'

/** The names that cannot be acquired soon after all workers are gone, or are held afterwards. */
export async function leftovers(
  locks: Locks,
  names: readonly string[],
  withinMs: number,
): Promise<readonly string[]> {
  const until = performance.now() + withinMs
  const found = await Promise.all(
    names.map(async (name) => {
      try {
        const lease = await locks
          .lock(name)
          .acquire({ waitMs: Math.max(0, Math.round(until - performance.now())) })
        await lease.release()
        const { held } = await locks.inspect(name)
        return held ? `${name} is held after its last release` : undefined
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error)
        return `${name} could not be acquired within ${withinMs} ms after the last worker: ${why}`
      }
    }),
  )
  return found.filter((one) => one !== undefined)
}
