import { LockError } from '../adapter/lock-error.ts'
import { invalid } from '../adapter/lock-error.ts'

/**
 * The resource's side of fencing: a fence helps only if the protected resource refuses a fence lower than one it has
 * seen. A new holder registers its fence first, which locks out its predecessor even before the first write.
 */
export interface Guard {
  /** Refuses lower fences from now on, and resolves when none runs. Throws `LOCK_LOST` if a higher one was seen. */
  register(fence: bigint): Promise<void>
  /** Runs `fn` unless a higher fence was seen. Runs of a guard never overlap, so `fn` must not await another one. */
  run<T>(fence: bigint, fn: () => T | Promise<T>): Promise<T>
}

/** A guard for a resource inside this process. */
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
      // A holder with a lower fence may still be writing; afterwards none is.
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
