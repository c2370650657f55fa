import { AsyncLocalStorage } from 'node:async_hooks'
import type { Holder } from '../adapter/spi.ts'
import type { Context } from './context.ts'
import { liveHolds } from './hold.ts'
import type { Hold } from './hold.ts'

/**
 * The async context of a `with` callback. A nested acquire re-enters a hold of an enclosing callback, never one of a
 * sibling: two concurrent branches inside one callback exclude each other.
 */
export interface Scope {
  readonly context: Context
  readonly hold: Hold
  outer: Scope | undefined
  /** The callback still runs. Tasks that outlive it have nothing to re-enter. */
  active: boolean
}

const scopes = new AsyncLocalStorage<Scope | undefined>()

export async function runInScope<T>(context: Context, hold: Hold, fn: () => T | Promise<T>): Promise<T> {
  const scope: Scope = { context, hold, outer: currentScope(), active: true }
  try {
    return await scopes.run(scope, async () => fn())
  } finally {
    scope.active = false
  }
}

/** The innermost of `scope` and its outer scopes whose callback still runs. */
function living(scope: Scope | undefined): Scope | undefined {
  let found = scope
  while (found?.active === false) found = found.outer
  return found
}

/**
 * Removes ended scopes from the chain. Otherwise a task that starts its successor inside a callback would keep all of
 * its predecessors in memory.
 */
function currentScope(): Scope | undefined {
  const current = scopes.getStore()
  for (let scope = current; scope !== undefined; scope = scope.outer) scope.outer = living(scope.outer)
  return living(current)
}

/**
 * Calls listeners of the program outside all scopes. In the scope of the task that triggered them, they would re-enter
 * a lock that is not theirs.
 */
export function outsideScopes(fn: () => void): void {
  scopes.run(undefined, fn)
}

/** The scope in which an acquire is called, for its error message. */
export function callingScope(): Scope | undefined {
  return scopes.getStore()
}

/** Whether `scope` is inside a callback that still runs under `hold`. */
function isWithin(scope: Scope | undefined, hold: Hold): boolean {
  for (let outer = scope; outer !== undefined; outer = outer.outer)
    if (outer.active && outer.hold === hold) return true
  return false
}

/** The hold of `name` under which an enclosing callback runs, unless it was released. */
export function enclosingHold(context: Context, name: string): Hold | undefined {
  for (let scope = scopes.getStore(); scope !== undefined; scope = scope.outer) {
    const { hold, active } = scope
    if (active && scope.context === context && hold.grant.name === name && hold.check() !== 'released')
      return hold
  }
  return undefined
}

/** Advice for a lock that this process holds; undefined if another process holds it. */
export function selfDeadlock(
  context: Context,
  name: string,
  holder: Holder,
  scope: Scope | undefined,
): { readonly advice: string } | undefined {
  // Most waiters wait for another process and need no search.
  if ((holder.metadata?.pid ?? process.pid) !== process.pid) return undefined
  for (const hold of liveHolds) {
    const { owner, grant } = hold
    // Another container may have a process with the same id, but not with the same owner and fence.
    if (grant.name !== name || owner !== holder.owner || grant.fence !== (holder.fence ?? grant.fence))
      continue
    const before = hold.isOf(context) ? 'before' : 'before, through another client'
    const how = `${hold.isOf(context) ? '' : 'use one client and '}pass the same \`owner\` to both to re-enter`
    if (isWithin(scope, hold)) return { advice: `the same task acquired it ${before}; ${how}` }
    return { advice: `if the same task acquired it ${before}, ${how}` }
  }
  return undefined
}
