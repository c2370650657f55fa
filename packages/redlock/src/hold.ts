import type { Holder } from '@locks/core/adapter'

/** What one node says about who has a name there. */
export interface Vote {
  /** Which attempt has it, or Redisson's field. */
  readonly attempt: string | undefined
  readonly holder: Holder | undefined
  readonly leftMs: number
}

/** What several nodes say about one and the same holder. */
export interface Hold<V extends Vote = Vote> {
  readonly votes: readonly V[]
  readonly holder: Holder
  /** How many nodes agree on the fence. */
  readonly agreed: number
}

/** Holders by the number of their nodes, those of most nodes first. */
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

/** To RedissonRedLock each node is another client with another id. What its fields share is the thread. */
function keyOf({ attempt, holder }: Vote): string | undefined {
  if (attempt === undefined) return undefined
  return holder?.fence === undefined ? `thread ${attempt.slice(attempt.lastIndexOf(':'))}` : attempt
}

function holdOf<V extends Vote>(votes: readonly V[], fencing: boolean): Hold<V> | undefined {
  const often = (fence: bigint | undefined): number =>
    votes.filter(({ holder }) => holder?.fence === fence).length
  // A node that voted late may know another fence than was written back, for a moment.
  const [holder] = votes
    .flatMap((vote) => vote.holder ?? [])
    .toSorted((a, b) => often(b.fence) - often(a.fence) || compare(a.fence, b.fence))
  if (holder === undefined) return undefined
  const agreed = often(holder.fence)
  if (fencing) return { votes, holder, agreed }
  // Each node has its own then, and none of them means anything to others.
  const { fence: _, ...rest } = holder
  return { votes, holder: rest, agreed }
}

function compare(a: bigint | undefined, b: bigint | undefined): number {
  return a === undefined || b === undefined || a === b ? 0 : a < b ? -1 : 1
}
