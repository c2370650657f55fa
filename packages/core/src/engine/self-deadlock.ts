import type { Context } from './context.ts'
import { liveHolds } from './hold.ts'
import { isWithin } from './re-entry.ts'
import type { Scope } from './re-entry.ts'
import type { Holder } from '../adapter/spi.ts'

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
