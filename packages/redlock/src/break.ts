import type { Holder } from '@locks/core/adapter'
import { errors } from './errors.ts'
import { isSameHold } from './hold.ts'
import type { Hold } from './hold.ts'
import type { RedlockNode } from './node.ts'
import type { Nodes } from './nodes.ts'
import { valuesOf } from './nodes.ts'
import { holdOf } from './state.ts'

/** Ends the hold that `inspect` described, on every node. A majority has to confirm it. */
export async function breakHold(
  nodes: Nodes,
  name: string,
  holder: Holder,
  fencing: boolean,
): Promise<'broken' | 'not-held'> {
  const hold = await holdOf(nodes, name, fencing, (found) => isOf(found, holder))
  if (hold === undefined) return 'not-held'
  if (!isOf(hold, holder)) {
    if (holder.fence !== undefined || hold.holder.fence !== undefined || hold.silent === 0) return 'not-held'
    // RedissonRedLock has another id on each node: `inspect` may have seen that of a silent one.
    throw errors.unavailable(
      `not every node reported the holder of ${JSON.stringify(name)}, so nothing was broken; try again`,
    )
  }
  const answers = await nodes.ask((node) => release(node, name, hold), {
    enough: (soFar) => valuesOf(soFar).length >= nodes.quorum,
  })
  if (valuesOf(answers).length >= nodes.quorum) return 'broken'
  throw nodes.outage(`${JSON.stringify(name)} was not broken on a majority`, answers)
}

function isOf(hold: Hold, { owner, fence }: Holder): boolean {
  if (fence !== undefined) return hold.holder.fence === fence
  return hold.holder.fence === undefined && hold.votes.some((vote) => vote.holder?.owner === owner)
}

async function release(node: RedlockNode, name: string, { votes }: Hold): Promise<unknown> {
  const [first] = votes
  const alike = votes.every(({ attempt }) => attempt === first?.attempt)
  if (first?.attempt !== undefined && alike && first.holder?.fence !== undefined)
    return node.release(name, first.attempt)
  // RedissonRedLock has another id on each node.
  const look = await node.look(name)
  if (first === undefined || look.attempt === undefined || !isSameHold(look, first)) return undefined
  return node.release(name, look.attempt)
}
