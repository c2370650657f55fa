import type { AcquireRequest, Holder } from '@locks/core'
import type { Refusal } from '@locks/redis/node'
import type { RedlockNode } from './node.ts'
import type { Answers, Nodes } from './nodes.ts'
import { count, valuesOf } from './nodes.ts'

/** As core counts: clocks may differ by 1 %, and 2 ms. */
export function validMs(ttlMs: number): number {
  return ttlMs - ttlMs / 100 - 2
}

export interface Refused {
  readonly busy: true
  /** Who has a majority; nobody when the votes are split. */
  readonly holder: Holder | undefined
  readonly settled: boolean
  /** Until so many nodes are free by themselves that there could be a majority. */
  readonly leftMs: number
}

interface Rules {
  readonly fencing: boolean
  readonly inTime: () => boolean
}

const isGrant = (answer: bigint | Refusal): boolean => typeof answer === 'bigint'

/** One vote: a majority of the nodes, or nothing of it anywhere. Rejects when too few answer. */
export async function attemptAll(
  nodes: Nodes,
  request: AcquireRequest,
  { fencing, inTime }: Rules,
): Promise<{ readonly fence: bigint } | Refused> {
  const { name, attemptId } = request
  const { quorum } = nodes
  const minority = nodes.all.length - quorum
  let verdict: bigint | 'open' | 'given up' = 'open'
  const late: { readonly node: RedlockNode; readonly vote: bigint }[] = []
  // A vote that comes late still counts against others, so it must carry the same fence. One for a vote that
  // was given up is freed by what is in line behind it, and by nothing later: that could meet the next vote.
  const settleLate = (): void => {
    for (const { node, vote } of late.splice(0))
      if (fencing && typeof verdict === 'bigint' && vote < verdict)
        nodes.track(node.raise(name, attemptId, verdict))
  }
  const failed = (answers: Answers<bigint | Refusal>): number =>
    answers.filter((answer) => answer !== undefined && 'failure' in answer).length
  const answers = await nodes.ask(
    (node) => node.attempt(request),
    (soFar) =>
      count(soFar, isGrant) >= quorum ||
      count(soFar, (one) => !isGrant(one)) > minority ||
      failed(soFar) > minority,
    (vote, index) => {
      const node = nodes.all[index]
      if (typeof vote !== 'bigint' || node === undefined) return
      late.push({ node, vote })
      if (verdict !== 'open') settleLate()
    },
  )
  const votes = answers.map((answer) =>
    answer !== undefined && 'value' in answer ? answer.value : undefined,
  )
  const fence = valuesOf(answers).reduce<bigint>(
    (highest, vote) => (typeof vote === 'bigint' && vote > highest ? vote : highest),
    0n,
  )
  if (count(answers, isGrant) >= quorum) {
    // The fence is settled by now, if not yet that there is a grant.
    verdict = fence
    settleLate()
    if ((!fencing || (await writeBack(nodes, request, votes, fence))) && inTime()) return { fence }
  }
  verdict = 'given up'
  await undo(nodes, request, answers)
  const refusals = valuesOf(answers).filter((vote) => typeof vote === 'object')
  // A majority out of reach because others have it is "busy"; because nodes do not answer, it is an outage.
  if (refusals.length > minority) return refusedBy(refusals, quorum)
  if (valuesOf(answers).length < quorum)
    throw nodes.outage(`no majority for ${JSON.stringify(name)}`, answers)
  if (refusals.length === 0) throw nodes.outage(`no grant of ${JSON.stringify(name)} in time`, answers)
  return refusedBy(refusals, quorum)
}

/**
 * Every node minted a fence of its own. The highest is written to a majority that still holds the lock: any
 * later majority has a node in common with it, whose next fence is higher.
 */
async function writeBack(
  nodes: Nodes,
  { name, attemptId }: AcquireRequest,
  votes: readonly (bigint | Refusal | undefined)[],
  fence: bigint,
): Promise<boolean> {
  const { quorum } = nodes
  const done = (soFar: Answers<boolean>): number => count(soFar, (raised) => raised)
  const answers = await nodes.ask(
    async (node, index) => {
      const vote = votes[index]
      if (vote === fence) return true
      return typeof vote === 'bigint' && node.raise(name, attemptId, fence)
    },
    (soFar) => done(soFar) >= quorum,
  )
  return done(answers) >= quorum
}

/** Every node, those that were silent too: in order behind the attempt, whenever they read on. */
async function undo(
  nodes: Nodes,
  { name, attemptId }: AcquireRequest,
  answers: Answers<bigint | Refusal>,
): Promise<void> {
  const granted = answers.map((answer) => answer !== undefined && 'value' in answer && isGrant(answer.value))
  await nodes.ask(
    (node) => node.free(name, attemptId),
    // Whoever voted for us has to let go before others try again; the rest may take its time.
    (soFar) => granted.every((yes, index) => !yes || soFar[index] !== undefined),
  )
}

function refusedBy(refusals: readonly Refusal[], quorum: number): Refused {
  const byAttempt = new Map<string, Refusal[]>()
  for (const refusal of refusals) {
    const key = refusal.attempt ?? ''
    byAttempt.set(key, [...(byAttempt.get(key) ?? []), refusal])
  }
  const [first = []] = [...byAttempt.values()].sort((a, b) => b.length - a.length)
  const leftMs = Math.min(...refusals.map((refusal) => refusal.leftMs))
  const fences = first.map(({ holder }) => holder?.fence)
  const often = (fence: bigint | undefined): number => fences.filter((one) => one === fence).length
  // A node that voted late may know a higher fence than was written back.
  const [told] = first.toSorted(
    (a, b) =>
      often(b.holder?.fence) - often(a.holder?.fence) ||
      Number((a.holder?.fence ?? 0n) - (b.holder?.fence ?? 0n)),
  )
  return { busy: true, holder: told?.holder, settled: first.length >= quorum, leftMs }
}
