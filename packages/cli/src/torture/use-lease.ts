import { setTimeout as pass } from 'node:timers/promises'
import type { Lease } from '@locks/core'
import { codeOf, complain } from './failure.ts'
import type { Task } from './task.ts'

export interface Used {
  /** To be called before the release. */
  releasing(): void
  /** To be called after it, with why it failed, if it did. */
  ended(failure: unknown): void
}

/** Does what a program does under a lock: checks, writes, waits, extends, enters again. Never rejects. */
export async function useLease(task: Task, name: string, lease: Lease): Promise<Used> {
  const { recorder, random, order, locks } = task
  const granted = recorder.now()
  const fenced = locks.capabilities.fencing !== 'none'
  const fence = fenced ? lease.fence : 1n
  const act = { name, task: task.task, fence }
  // A hold reaches as far as its last check that passed, counted from before that check.
  recorder.record({ type: 'granted', ...act, t: granted, deadline: granted })
  task.tell({ type: 'granted', task: task.task })

  const held = (): boolean => {
    const before = recorder.now()
    try {
      lease.assertHeld()
    } catch (error) {
      if (codeOf(error) !== 'LOCK_LOST') complain(task, `assertHeld of ${name} threw`, error)
      recorder.record({ type: 'lost', ...act })
      return false
    }
    recorder.record({ type: 'renewed', ...act, deadline: before })
    return true
  }
  const extend = async (): Promise<void> => {
    try {
      await (random.chance(0.5) ? lease.extend() : lease.extend(order.ttlMs))
    } catch (error) {
      if (codeOf(error) === undefined) complain(task, `extend of ${name} rejected with`, error)
    }
  }
  const reenter = async (): Promise<void> => {
    recorder.record({ type: 'acquire-called', name, task: task.task })
    let again: Lease
    try {
      again = await locks.lock(name).acquire({ owner: lease.owner, waitMs: 0 })
    } catch (error) {
      const code = codeOf(error)
      if (code === undefined) complain(task, `re-entry of ${name} rejected with`, error)
      recorder.record({ type: 'acquire-failed', name, task: task.task, outcome: 'info', code: code ?? '' })
      return
    }
    // After a loss it is a hold of its own, under another fence.
    const inner = fenced ? { ...act, fence: again.fence } : act
    recorder.record({ type: 'granted', ...inner, deadline: recorder.now() })
    if (again.fence !== lease.fence && held())
      complain(task, `re-entry of ${name}`, new Error(`got fence ${again.fence} beside ${lease.fence}`))
    recorder.record({ type: 'release-called', ...inner })
    await again.release().then(
      () => ended(undefined, inner),
      (error: unknown) => ended(error, inner),
    )
  }
  const ended = (failure: unknown, of = act): void => {
    if (failure === undefined) return recorder.record({ type: 'released', ...of })
    const code = codeOf(failure)
    if (code === undefined) complain(task, `release of ${name} rejected with`, failure)
    recorder.record({ type: 'release-failed', ...of, code: code ?? 'untyped' })
  }

  // Now and then longer than the lease, so that it must be renewed, and checked often enough to see an overlap.
  const isLong = random.chance(0.15)
  const steps = isLong ? random.between(5, 30) : random.between(1, 4)
  for (let step = 0; step < steps && !task.stop.aborted && held(); step += 1) {
    if (fenced) await task.write(name, fence)
    await pass(isLong ? order.ttlMs / 15 : random.between(0, 12))
    if (!held()) break
    if (random.chance(isLong ? 0.02 : 0.08)) await extend()
    if (random.chance(isLong ? 0.02 : 0.08)) await reenter()
  }

  return {
    releasing() {
      held()
      recorder.record({ type: 'release-called', ...act })
    },
    ended,
  }
}
