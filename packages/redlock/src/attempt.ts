import { LockError } from '@locks/core/adapter'
import type { AcquireRequest, Holder } from '@locks/core/adapter'
import type { Refusal } from '@locks/redis/node'
import { holdsIn } from './hold.ts'
import type { RedlockNode } from './node.ts'
import type { Answers, Nodes } from './nodes.ts'
import { count, misconfigured, saidOf, valuesOf } from './nodes.ts'

/** As core counts: clocks may differ by 1 %, and 2 ms. */
export function validMs(ttlMs: number): number {
  return ttlMs - ttlMs / 100 - 2
}

export interface Refused {
  readonly busy: true
  /** Which attempt has a majority. */
  readonly attempt: string | undefined
  /** Who has a majority; nobody when the votes are split. */
  readonly holder: Holder | undefined
  readonly settled: boolean
  /** Until a node that refused is free by itself. */
  readonly leftMs: number
}

interface Rules {
  readonly fencing: boolean
  readonly inTime: () => boolean
}

type Ballot = bigint | Refusal

const isGrant = (ballot: Ballot | undefined): ballot is bigint => typeof ballot === 'bigint'

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
      if (fencing && typeof verdict === 'bigint' && vote !== verdict)
        nodes.track(node.raise(name, attemptId, verdict, vote))
  }
  const failed = (answers: Answers<Ballot>): number =>
    answers.filter((answer) => answer !== undefined && 'failure' in answer).length
  const answers = await nodes.ask((node) => node.attempt(request), {
    enough: (soFar) =>
      count(soFar, isGrant) >= quorum ||
      count(soFar, (one) => !isGrant(one)) > minority ||
      failed(soFar) > minority,
    late: (vote, index) => {
      const node = nodes.all[index]
      if (!isGrant(vote) || node === undefined) return
      late.push({ node, vote })
      if (verdict !== 'open') settleLate()
    },
    hurry: true,
  })
  const votes = answers.map(saidOf)
  let failure = misconfigured(answers)
  if (failure !== undefined) {
    verdict = 'given up'
    await undo(nodes, request, votes)
    throw failure
  }
  if (votes.filter(isGrant).length >= quorum) {
    const fence = votes.filter(isGrant).reduce((highest, vote) => (vote > highest ? vote : highest))
    // The fence is settled by now, if not yet that there is a grant.
    verdict = fence
    settleLate()
    failure = fencing ? await writeBack(nodes, request, votes, fence) : undefined
    if (failure === undefined && inTime()) return { fence }
    failure ??= new LockError('LOCK_UNAVAILABLE', `${JSON.stringify(name)} was granted after its time`)
  }
  verdict = 'given up'
  await undo(nodes, request, votes)
  const refusals = votes.filter((vote) => typeof vote === 'object')
  // A majority out of reach because others have it is "busy"; because nodes do not answer, it is an outage.
  if (refusals.length > minority) return refusedBy(refusals, nodes, fencing)
  if (valuesOf(answers).length < quorum)
    throw nodes.outage(`no majority for ${JSON.stringify(name)}`, answers)
  if (failure !== undefined && refusals.length === 0) throw failure
  return refusedBy(refusals, nodes, fencing)
}

/** Somebody else was first at the node that is asked first. */
export interface Ahead {
  readonly busy: true
  readonly attempt: string | undefined
  readonly holder: Holder | undefined
}

/**
 * Those who compete ask one and the same node first: whoever gets its vote will hardly meet another at the
 * rest. Answers who is ahead there.
 */
export async function whoIsAhead(
  nodes: Nodes,
  request: AcquireRequest,
  fencing: boolean,
): Promise<Ahead | undefined> {
  const ballot = await nodes.askFirst((node) => node.attempt(request))
  if (typeof ballot !== 'object') return undefined
  const [hold] = holdsIn([ballot], fencing)
  return { busy: true, attempt: ballot.attempt, holder: hold?.holder }
}

/**
 * Every node minted a fence of its own. The highest is written to a majority that still holds the lock: any
 * later majority has a node in common with it, whose next fence is higher. Answers what went wrong.
 */
async function writeBack(
  nodes: Nodes,
  { name, attemptId }: AcquireRequest,
  votes: readonly (Ballot | undefined)[],
  fence: bigint,
): Promise<LockError | undefined> {
  const { quorum } = nodes
  const done = (soFar: Answers<boolean>): number => count(soFar, (raised) => raised)
  const answers = await nodes.ask(
    async (node, index) => {
      const vote = votes[index]
      if (vote === fence) return true
      return isGrant(vote) && node.raise(name, attemptId, fence, vote)
    },
    { enough: (soFar) => done(soFar) >= quorum },
  )
  if (done(answers) >= quorum) return undefined
  return nodes.outage(`the fence of ${JSON.stringify(name)} did not reach a majority`, answers)
}

/** Every node that may have voted for us, silent ones too: in order behind the attempt, whenever they read on. */
async function undo(
  nodes: Nodes,
  { name, attemptId }: AcquireRequest,
  votes: readonly (Ballot | undefined)[],
): Promise<void> {
  const refused = votes.map((vote) => typeof vote === 'object')
  const freed = nodes.ask(
    async (node, index) => (refused[index] === true ? 'released' : node.free(name, attemptId)),
    // Whoever voted for us has to let go before others try again; the rest may take its time.
    { enough: (soFar) => votes.every((vote, index) => !isGrant(vote) || soFar[index] !== undefined) },
  )
  if (votes.some(isGrant)) await freed
}

function refusedBy(refusals: readonly Refusal[], { quorum }: Nodes, fencing: boolean): Refused {
  const [first] = holdsIn(refusals, fencing)
  const settled = first !== undefined && first.votes.length >= quorum
  const leftMs = Math.min(...refusals.map((refusal) => refusal.leftMs))
  if (!settled) return { busy: true, attempt: undefined, holder: undefined, settled, leftMs }
  return { busy: true, attempt: first.votes[0]?.attempt, holder: first.holder, settled, leftMs }
}
