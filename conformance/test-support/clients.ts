import { createLocks } from '@locks/core'
import type { AdapterFactory, Clock, Locks, LocksOptions } from '@locks/core'
import { EARLY_SHARE, systemClock } from '@locks/core/adapter'
import { onTestFinished } from 'vitest'

/** The clock of the system, with which no client prunes after its first release: tests count statements and faults. */
export const calmClock: Clock = {
  ...systemClock,
  random: () => EARLY_SHARE + Math.random() * (1 - EARLY_SHARE),
}

/** A client that is closed when its test is over. */
export function openClient(factory: AdapterFactory, options: LocksOptions = {}): Locks {
  const locks = createLocks(factory, { clock: calmClock, ...options })
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
