import { setTimeout as pass } from 'node:timers/promises'
import type { AcquireOptions, Lease } from '@locks/core'
import { codeOf, complain } from './failure.ts'
import type { WorkerOrder } from './protocol.ts'
import type { Task } from './task.ts'
import { useLease } from './use-lease.ts'
import type { Length, Used } from './use-lease.ts'
import { slotOf } from './verdict.ts'

/** Acquires, uses and releases locks until `stop` aborts, and records every step. */
export async function runTask(task: Task): Promise<void> {
  const { random, stop } = task
  const own = ownName(task)
  while (!stop.aborted) {
    // For a name that no other task uses, "held" is rarely correct.
    const name = random.chance(0.2) ? own : sharedName(task)
    const way = random.fraction()
    if (way < 0.25) await acquire(task, name)
    else if (way < 0.4) await tryWith(task, name, delayed(task))
    else if (way < 0.6) await withLock(task, name)
    else if (way < 0.7) await abortedAcquire(task, name)
    else await severalAtOnce(task, name)
    await pass(random.between(0, 60))
  }
}

/** A name that no other task uses. */
export function ownName({
  order: { prefix, process },
  task,
}: {
  readonly order: Pick<WorkerOrder, 'prefix' | 'process'>
  readonly task: string
}): string {
  return `${prefix}only-${slotOf(process)}-${task}`
}

/** More often the first one, so that a lock that is freed too early has waiters. */
function sharedName({ random, order: { names } }: Task): string {
  return random.chance(0.25) ? names[0] : random.pick(names)
}

function acquire(task: Task, name: string, signal = task.stop): Promise<void> {
  const options = { ...optionsOf(task, signal), ...delayed(task) }
  return attempt(task, name, signal, options, () => task.locks.lock(name).acquire(options))
}

function abortedAcquire(task: Task, name: string): Promise<void> {
  const early = AbortSignal.timeout(task.random.between(1, 300))
  return acquire(task, name, AbortSignal.any([early, task.stop]))
}

/** Sends several commands together, so that a reply to the wrong one shows. */
async function severalAtOnce(task: Task, name: string): Promise<void> {
  const others = Array.from({ length: 3 }, () => task.random.pick([...task.order.names, ownName(task)]))
  const ways = [tryWith, acquireSoon] as const
  await Promise.all(
    [...new Set([name, ...others])].map((one) => task.random.pick(ways)(task, one, delayed(task))),
  )
}

function acquireSoon(task: Task, name: string, own: Partial<Options>): Promise<void> {
  const retry = { delayMs: 2, maxDelayMs: 20 }
  return acquireWith(task, name, { waitMs: task.random.between(0, 300), retry, ...own })
}

/** An acquire with these options in addition to the usual ones. */
export function acquireWith(task: Task, name: string, own: Partial<Options>, length?: Length): Promise<void> {
  const options = { ...optionsOf(task, task.stop), ...own }
  const call = (): Promise<Lease> => task.locks.lock(name).acquire(options)
  return attempt(task, name, task.stop, { ...options, length }, call)
}

export function tryWith(
  task: Task,
  name: string,
  own: Partial<Options> = {},
  length?: Length,
): Promise<void> {
  const { waitMs: _, ...options } = { ...optionsOf(task, task.stop), ...own }
  const call = (): Promise<Lease | null> => task.locks.lock(name).tryAcquire(options)
  return attempt(task, name, task.stop, { ...options, length }, call)
}

type Options = AcquireOptions & { readonly owner: string; readonly renew: boolean }

function optionsOf(task: Task, signal: AbortSignal): Options {
  const { random, order } = task
  // One owner for each task, so that it can re-enter.
  const owner = `${order.process}/${task.task}`
  return { signal, waitMs: random.between(0, order.ttlMs * 2), owner, renew: renewedOrNot(task, 0.1) }
}

/** Sometimes a lock-delay, of at most one lease. It must not keep out the attempt whose own grant was lost. */
function delayed({ random, locks, order: { ttlMs } }: Task): Pick<AcquireOptions, 'lockDelayMs'> {
  return locks.capabilities.lockDelay && random.chance(0.2)
    ? { lockDelayMs: random.between(Math.ceil(ttlMs / 4), ttlMs) }
    : {}
}

/** Only a store with leases supports `renew: false`. */
export function renewedOrNot({ random, locks }: Task, shareOfNot: number): boolean {
  return !random.chance(shareOfNot) || locks.capabilities.kind !== 'lease'
}

async function attempt(
  task: Task,
  name: string,
  signal: AbortSignal,
  { renew, length }: Pick<Options, 'renew'> & { readonly length?: Length | undefined },
  call: () => Promise<Lease | null>,
): Promise<void> {
  const act = { name, task: task.task }
  task.recorder.record({ type: 'acquire-called', ...act })
  let lease: Lease | null
  try {
    lease = await call()
  } catch (error) {
    recordFailure(task, name, signal, error)
    return
  }
  if (lease === null) {
    task.recorder.record({ type: 'acquire-failed', ...act, outcome: 'fail', code: 'busy' })
    return
  }
  const used = await useLease(task, name, lease, { renewed: renew, length })
  used.releasing()
  try {
    await lease.release()
    used.ended(undefined)
  } catch (error) {
    used.ended(error)
  }
}

/** The same with `with`, which releases itself and rejects after a loss. */
async function withLock(task: Task, name: string): Promise<void> {
  const { owner: _, ...options } = { ...optionsOf(task, task.stop), ...delayed(task) }
  task.recorder.record({ type: 'acquire-called', name, task: task.task })
  let used: Used | undefined
  let owner: string | undefined
  let unconfirmed: unknown
  // A release that the store did not confirm does not make `with` reject.
  const stopListening = task.locks.on('release', (event) => {
    if (event.lock === name && event.owner === owner) unconfirmed = event.error
  })
  try {
    await task.locks.lock(name).with(options, async (lease) => {
      owner = lease.owner
      used = await useLease(task, name, lease, { renewed: options.renew })
      used.releasing()
    })
    used?.ended(unconfirmed)
  } catch (error) {
    if (used === undefined) recordFailure(task, name, task.stop, error)
    else used.ended(error)
  } finally {
    stopListening()
  }
}

function recordFailure(task: Task, name: string, signal: AbortSignal, error: unknown): void {
  const code = codeOf(error, signal)
  if (code === undefined) complain(task, `acquire of ${name} rejected with`, error)
  task.recorder.record({
    type: 'acquire-failed',
    name,
    task: task.task,
    outcome: code === 'LOCK_TIMEOUT' ? 'fail' : 'info',
    code: code ?? 'untyped',
  })
}
