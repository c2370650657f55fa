import { LockError } from './errors.ts'
import { invalid } from './validate.ts'

/**
 * The resource's side of fencing: a fence helps only if what the lock protects refuses a lower one
 * than it has seen. A new holder registers its fence first, so that its predecessor is locked out
 * even before the first write.
 */
export interface Guard {
  /** Shuts out every lower fence, and resolves once nobody runs under one. `LOCK_LOST` if a higher one was seen. */
  register(fence: bigint): Promise<void>
  /** Runs `fn` if no higher fence was seen. No other `run` of this guard overlaps it, so `fn` must not await one. */
  run<T>(fence: bigint, fn: () => T | Promise<T>): Promise<T>
}

/** Guards something that lives in this process. */
export function memoryGuard(): Guard {
  let highest = -1n
  let last: Promise<unknown> = Promise.resolve()
  function admit(fence: bigint): void {
    if (typeof fence !== 'bigint') throw invalid('fence must be a bigint')
    if (fence < highest)
      throw new LockError('LOCK_LOST', `stale fence ${fence}: the resource has seen ${highest}`)
    highest = fence
  }
  return {
    async register(fence) {
      admit(fence)
      // Whoever was let in before this fence is still writing: afterwards nobody is.
      await last
    },
    run(fence, fn) {
      const turn = last.then(() => {
        admit(fence)
        return fn()
      })
      last = turn.catch(() => undefined)
      return turn
    },
  }
}
