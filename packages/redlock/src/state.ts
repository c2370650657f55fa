import type { LockState } from '@locks/core'
import type { Look } from '@locks/redis/node'
import type { Nodes } from './nodes.ts'
import { count, valuesOf } from './nodes.ts'

/** A name is held by whoever holds it on a majority, under the fence that was written back to one. */
export async function stateOf(nodes: Nodes, name: string, fencing: boolean): Promise<LockState> {
  const { quorum, all } = nodes
  const answers = await nodes.ask(
    (node) => node.look(name),
    (soFar) => {
      const held = majorityOf(valuesOf(soFar), quorum)
      // A node that voted late may know a higher fence than was written back.
      if (held !== undefined) return !fencing || mostCommon(held).often >= quorum
      return count(soFar, ({ attempt }) => attempt === undefined) > all.length - quorum
    },
  )
  const looks = valuesOf(answers)
  if (looks.length < quorum) throw nodes.outage(`no majority knows ${JSON.stringify(name)}`, answers)
  const held = majorityOf(looks, quorum)
  const [first] = held ?? []
  if (held === undefined || first?.holder === undefined) return { name, held: false }
  const remaining = held.map(({ leftMs }) => leftMs).sort((a, b) => b - a)
  const { fence } = mostCommon(held)
  return {
    name,
    held: true,
    holder: fence === undefined ? first.holder : { ...first.holder, fence },
    remainingMs: remaining[quorum - 1] ?? 0,
  }
}

function majorityOf(looks: readonly Look[], quorum: number): readonly Look[] | undefined {
  for (const { attempt } of looks) {
    const same = looks.filter((look) => look.attempt === attempt)
    if (attempt !== undefined && same.length >= quorum) return same
  }
  return undefined
}

function mostCommon(held: readonly Look[]): { readonly fence: bigint | undefined; readonly often: number } {
  const fences = held.flatMap(({ holder }) => (holder?.fence === undefined ? [] : [holder.fence]))
  const often = (fence: bigint): number => fences.filter((one) => one === fence).length
  const [fence] = fences.toSorted((a, b) => often(b) - often(a) || Number(a - b))
  return { fence, often: fence === undefined ? 0 : often(fence) }
}
