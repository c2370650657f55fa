import type { LockState } from '@locks/core/adapter'
import type { Look } from '@locks/redis/node'
import { holdsIn } from './hold.ts'
import type { Hold } from './hold.ts'
import type { Nodes } from './nodes.ts'
import { count, valuesOf } from './nodes.ts'

/**
 * A name is held by whoever holds it on a majority, under the fence that was written back to one. Where
 * nodes do not answer it is enough that somebody may do so: then nobody else can.
 */
export async function holdOf(
  nodes: Nodes,
  name: string,
  fencing: boolean,
  /** A hold that is not the one meant is not settled for before every node was asked. */
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
  if (looks.length < quorum) throw nodes.outage(`no majority knows ${JSON.stringify(name)}`, answers)
  const [first] = holdsIn(looks, fencing)
  const silent = all.length - looks.length
  return first !== undefined && first.votes.length + silent >= quorum ? { ...first, silent } : undefined
}

export function stateOf(name: string, hold: Hold | undefined, quorum: number): LockState {
  if (hold === undefined) return { name, held: false }
  const { holder, votes } = hold
  const lefts = votes.map(({ leftMs }) => leftMs).toSorted((a, b) => b - a)
  return { name, held: true, holder, remainingMs: lefts[quorum - 1] ?? lefts.at(-1) ?? 0 }
}
