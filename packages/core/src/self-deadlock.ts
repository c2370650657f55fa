import type { Client } from './client.ts'
import { liveHolds } from './hold.ts'
import { isWithin } from './scope.ts'
import type { Scope } from './scope.ts'
import type { Holder } from './spi.ts'

/** What to do about a lock that this process itself holds; undefined when another one does. */
export function selfDeadlock(
  client: Client,
  name: string,
  holder: Holder,
  scope: Scope | undefined,
): { readonly advice: string } | undefined {
  // Spares most of those who wait for others the search.
  if ((holder.metadata?.pid ?? process.pid) !== process.pid) return undefined
  for (const hold of liveHolds) {
    const { owner, grant } = hold
    // The process id may be that of another container's process; owner and fence together are not.
    if (grant.name !== name || owner !== holder.owner || grant.fence !== (holder.fence ?? grant.fence))
      continue
    const before = hold.isOf(client) ? 'before' : 'before, through another client'
    const how = `${hold.isOf(client) ? '' : 'use one client and '}pass the same \`owner\` to both to re-enter`
    if (isWithin(scope, hold)) return { advice: `the same task acquired it ${before}; ${how}` }
    return { advice: `if the same task acquired it ${before}, ${how}` }
  }
  return undefined
}
