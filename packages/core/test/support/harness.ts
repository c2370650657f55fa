import { createLocks } from '../../src/index.ts'
import type { LockError, Locks, LocksOptions } from '../../src/index.ts'
import { isLockError } from '../../src/adapter/lock-error.ts'
import { ScriptedStore } from './scripted-adapter.ts'
import type { ScriptedOptions } from './scripted-adapter.ts'
import { VirtualClock } from './virtual-clock.ts'

export interface Harness {
  readonly clock: VirtualClock
  readonly store: ScriptedStore
  readonly locks: Locks
}

/** A client over a scripted store, in virtual time. */
export function harness(
  options: { store?: ScriptedOptions; locks?: Omit<LocksOptions, 'clock'> } = {},
): Harness {
  const clock = new VirtualClock()
  const store = new ScriptedStore(options.store)
  return { clock, store, locks: createLocks(store.factory, { ...options.locks, clock }) }
}

/** The state of a promise so far. */
export interface Watched<T> {
  state: 'pending' | 'fulfilled' | 'rejected'
  value: T | undefined
  error: unknown
}

export function watch<T>(promise: Promise<T>): Watched<T> {
  const watched: Watched<T> = { state: 'pending', value: undefined, error: undefined }
  promise.then(
    (value) => Object.assign(watched, { state: 'fulfilled', value }),
    (error: unknown) => Object.assign(watched, { state: 'rejected', error }),
  )
  return watched
}

/** The reason of a rejected promise; a promise that resolves fails the test. */
export async function reasonOf(promise: PromiseLike<unknown>): Promise<unknown> {
  const value = await promise.then(
    () => undefined,
    (error: unknown) => ({ error }),
  )
  if (value === undefined) throw new Error('expected a rejection')
  return value.error
}

export async function lockErrorOf(promise: Promise<unknown>): Promise<LockError> {
  const reason = await reasonOf(promise)
  if (!isLockError(reason)) throw new Error('expected a LockError', { cause: reason })
  return reason
}

export function codeOf(error: unknown): string | undefined {
  return isLockError(error) ? error.code : undefined
}

/** The code of the `LockError` that `fn` throws. */
export function thrownCode(fn: () => unknown): string | undefined {
  try {
    fn()
  } catch (error) {
    return codeOf(error)
  }
  return undefined
}

/** Calls a method like untyped code, with any arguments. */
export async function callUntyped(
  target: object,
  method: string,
  ...args: readonly unknown[]
): Promise<unknown> {
  const fn: unknown = Reflect.get(target, method)
  if (typeof fn !== 'function') throw new Error(`no method ${method}`)
  const result: unknown = await Reflect.apply(fn, target, args)
  return result
}
