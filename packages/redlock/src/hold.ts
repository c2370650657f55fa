import type { Holder } from '@locks/core/adapter'

/** What one node says about the holder of a name. */
export interface Vote {
  /** The attempt that holds it, or Redisson's field. */
  readonly attempt: string | undefined
  readonly holder: Holder | undefined
  readonly remainingMs: number
}

/** What several nodes say about the same holder. */
export interface Hold<V extends Vote = Vote> {
  readonly votes: readonly V[]
  readonly holder: Holder
  /** How many nodes agree on the fence. */
  readonly agreed: number
}

/** Holders by the number of their nodes, the most first. */
export function holdsIn<V extends Vote>(votes: readonly V[], fencing: boolean): readonly Hold<V>[] {
  const byHolder = new Map<string, V[]>()
  for (const vote of votes) {
    const key = keyOf(vote)
    if (key === undefined) continue
    const same = byHolder.get(key)
    if (same === undefined) byHolder.set(key, [vote])
    else same.push(vote)
  }
  return [...byHolder.values()]
    .toSorted((a, b) => b.length - a.length)
    .flatMap((same) => holdOf(same, fencing) ?? [])
}

export function isSameHold(one: Vote, other: Vote): boolean {
  return one.attempt !== undefined && keyOf(one) === keyOf(other)
}

/** RedissonRedLock has another id on each node. Its fields share the thread. */
function keyOf({ attempt, holder }: Vote): string | undefined {
  if (attempt === undefined) return undefined
  return holder?.fence === undefined ? `thread ${attempt.slice(attempt.lastIndexOf(':'))}` : attempt
}

function holdOf<V extends Vote>(votes: readonly V[], fencing: boolean): Hold<V> | undefined {
  const often = (fence: bigint | undefined): number =>
    votes.filter(({ holder }) => holder?.fence === fence).length
  // For a moment, a node that voted late may have another fence than the majority.
  const [holder] = votes
    .flatMap((vote) => vote.holder ?? [])
    .toSorted((a, b) => often(b.fence) - often(a.fence) || compare(a.fence, b.fence))
  if (holder === undefined) return undefined
  const agreed = often(holder.fence)
  if (fencing) return { votes, holder, agreed }
  // Each node has its own fence then, which means nothing to the others.
  const { fence: _, ...rest } = holder
  return { votes, holder: rest, agreed }
}

function compare(a: bigint | undefined, b: bigint | undefined): number {
  return a === undefined || b === undefined || a === b ? 0 : a < b ? -1 : 1
}
