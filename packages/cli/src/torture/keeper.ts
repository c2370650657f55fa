import { setTimeout as pass } from 'node:timers/promises'
import { acquireWith, ownName, renewedOrNot, tryWith } from './run-task.ts'
import type { Task } from './task.ts'

// Ordinary tasks release their locks early, which hides timing bugs. These tasks look for them.

const roles = ['tries', 'waits', 'is-alone'] as const
type Role = (typeof roles)[number]

export interface KeeperPlan {
  readonly task: string
  readonly role: Role
  /** Tasks with the same number share a name. */
  readonly number: number
}

/** The keepers of a worker with this number of ordinary tasks. */
export function keepersOf(tasks: number): readonly KeeperPlan[] {
  const numbers = Array.from({ length: Math.ceil(tasks / 3) }, (_, n) => n + 1)
  return numbers.flatMap((number) => roles.map((role) => ({ task: `${role}-${number}`, role, number })))
}

/** The names that keepers of all workers share. */
export function keptNames(prefix: string, tasks: number): readonly string[] {
  return keepersOf(tasks)
    .filter(({ role }) => role !== 'is-alone')
    .map((plan) => keptName(prefix, plan))
}

/**
 * Holds its lock until the lease is over, while another worker constantly tries to acquire it, or waits for it: a lease
 * that is relied on for longer than the store keeps it overlaps with the next. `is-alone` uses a separate name and
 * waits for less than a lease: it gets "held" if one of its own attempts was not withdrawn.
 */
export async function runKeeper(task: Task, plan: KeeperPlan): Promise<void> {
  const { random, order, stop } = task
  const { ttlMs } = order
  const name = plan.role === 'is-alone' ? ownName(task) : keptName(order.prefix, plan)
  while (!stop.aborted) {
    const renew = renewedOrNot(task, 0.85)
    if (plan.role === 'tries') await tryWith(task, name, { renew }, 'long')
    else if (plan.role === 'waits') await acquireWith(task, name, { renew, waitMs: ttlMs * 3 }, 'long')
    else await acquireWith(task, name, { renew: true, waitMs: random.between(50, ttlMs * 0.9) })
    await pass(plan.role === 'tries' ? random.between(5, ttlMs / 4) : random.between(0, ttlMs / 10))
  }
}

function keptName(prefix: string, { role, number }: KeeperPlan): string {
  return `${prefix}${role}-${number}`
}
