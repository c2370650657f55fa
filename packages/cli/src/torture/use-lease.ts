import { setTimeout as pass } from 'node:timers/promises'
import type { Lease } from '@locks/core'
import { codeOf, complain } from './failure.ts'
import { leaseChecks } from './lease-checks.ts'
import type { Task } from './task.ts'

export interface Used {
  /** Called before the release. */
  releasing(): void
  /** Called after the release, with its error, if it failed. */
  ended(failure: unknown): void
}

/** How long a lease is used, if not at random. */
export type Length = 'long'

/** How often a long lease is checked: a shorter overlap may stay undetected. */
const PROBE_MS = 10

/** Does what a program does under a lock: checks, writes, waits, extends, re-enters. Never rejects. */
export async function useLease(
  task: Task,
  name: string,
  lease: Lease,
  { renewed, length }: { readonly renewed: boolean; readonly length?: Length | undefined },
): Promise<Used> {
  const { recorder, random, order, locks } = task
  const granted = recorder.now()
  const fenced = locks.capabilities.fencing !== 'none'
  const fence = fenced ? lease.fence : 1n
  const act = { name, task: task.task, fence }
  // A hold counts until the start of its last check that passed.
  recorder.record({ type: 'granted', ...act, t: granted, deadline: granted })
  task.tell({ type: 'granted', task: task.task })
  task.granted()

  const checks = leaseChecks(task, lease, act)
  const extend = async (): Promise<void> => {
    try {
      await (random.chance(0.5) ? lease.extend() : lease.extend(order.ttlMs))
    } catch (error) {
      if (codeOf(error) === undefined) complain(task, `extend of ${name} rejected with`, error)
    }
  }
  const held = async (): Promise<boolean> => {
    let answer = checks.check()
    // If a hold ends with its connection, it is in doubt after a stall until the store has answered.
    for (let tries = 0; answer === 'unknown' && tries < 3; tries += 1) {
      await extend()
      answer = checks.check()
    }
    return answer === 'held'
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
    // After a loss it is a new hold, under another fence.
    const inner = fenced ? { ...act, fence: again.fence } : act
    recorder.record({ type: 'granted', ...inner, deadline: recorder.now() })
    if (again.fence !== lease.fence && checks.check() === 'held')
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
  const goOn = async (): Promise<boolean> => !task.stop.aborted && (await held())

  /** A few steps, and a pause between them. */
  const useBriefly = async (): Promise<void> => {
    for (let step = random.between(1, 4); step > 0 && (await goOn()); step -= 1) {
      if (fenced) await task.write(name, fence)
      await pass(random.between(0, 12))
      if (!(await held())) break
      if (random.chance(0.08)) await extend()
      if (random.chance(0.08)) await reenter()
    }
  }
  /** For longer than the lease, so that it must be renewed; a fixed lease until it is over. */
  const useForLong = async (): Promise<void> => {
    const until = recorder.now() + order.ttlMs * (renewed ? 0.3 + random.fraction() * 2 : 3)
    let under: Promise<unknown> = random.chance(0.4) ? extend() : Promise.resolve()
    for (let step = 0; recorder.now() < until && (await goOn()); step += 1) {
      if (fenced && step % 10 === 0) under = Promise.all([under, task.write(name, fence)])
      if (renewed && random.chance(0.003)) await extend()
      if (renewed && random.chance(0.003)) await reenter()
      await pass(PROBE_MS)
    }
    await under
  }
  const isLong = length === 'long' || random.chance(renewed ? 0.12 : 0.9)
  await (isLong ? useForLong() : useBriefly())

  return {
    releasing() {
      checks.check()
      checks.note()
      recorder.record({ type: 'release-called', ...act })
    },
    ended,
  }
}
