import { createLocks } from '@locks/core'
import type { AdapterFactory, Locks, LocksOptions } from '@locks/core'
import { onTestFinished } from 'vitest'

/** A client that is closed when its test is over. */
export function openClient(factory: AdapterFactory, options: LocksOptions = {}): Locks {
  const locks = createLocks(factory, options)
  onTestFinished(() => locks.close())
  return locks
}

/** Resolves once a client has been told that `lock` is taken. */
export function contended(locks: Locks, lock: string): Promise<void> {
  return new Promise((resolve) => {
    const off = locks.on('contended', (event) => {
      if (event.lock !== lock) return
      off()
      resolve()
    })
  })
}

/** When the lease was lost, on the clock of `performance.now()`. */
export function lossOf({ signal }: { readonly signal: AbortSignal }): Promise<number> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(performance.now())
    else signal.addEventListener('abort', () => resolve(performance.now()), { once: true })
  })
}
