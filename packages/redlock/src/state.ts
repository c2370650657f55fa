import type { LockState } from '@locks/core/adapter'
import type { Look } from '@locks/redis/node'
import { holdsIn } from './hold.ts'
import type { Hold } from './hold.ts'
import type { Nodes } from './nodes.ts'
import { count, valuesOf } from './nodes.ts'

/**
 * The holder of a name holds it on a majority, under the fence that was written to one. If nodes do not answer, it is
 * enough that it may be a majority: no other attempt can have one then.
 */
export async function holdOf(
  nodes: Nodes,
  name: string,
  fencing: boolean,
  /** Every node is asked before another hold than the one meant is accepted. */
  isMeant: (hold: Hold) => boolean = () => true,
): Promise<(Hold<Look> & { readonly silent: number }) | undefined> {
  const { quorum, all } = nodes
  const answers = await nodes.ask((node) => node.look(name), {
    enough: (soFar) => {
      const [first] = holdsIn(valuesOf(soFar), fencing)
      if (first !== undefined && first.votes.length >= quorum)
        return (!fencing || first.agreed >= quorum) && isMeant(first)
      return count(soFar, ({ attempt }) => attempt === undefined) > all.length - quorum
    },
  })
  const looks = valuesOf(answers)
  if (looks.length < quorum) throw nodes.outage(`the holder of ${JSON.stringify(name)} is unknown`, answers)
  const [first] = holdsIn(looks, fencing)
  const silent = all.length - looks.length
  return first !== undefined && first.votes.length + silent >= quorum ? { ...first, silent } : undefined
}

export function stateOf(name: string, hold: Hold | undefined, quorum: number): LockState {
  if (hold === undefined) return { name, held: false }
  const { holder, votes } = hold
  const times = votes.map(({ remainingMs }) => remainingMs).toSorted((a, b) => b - a)
  return { name, held: true, holder, remainingMs: times[quorum - 1] ?? times.at(-1) ?? 0 }
}
