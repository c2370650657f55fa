import type { AcquireRequest, Holder, LockError } from '@locks/core/adapter'
import type { RedisNode, Refusal } from '@locks/redis/node'
import { errors } from './errors.ts'
import { holdsIn } from './hold.ts'
import type { Answers, Nodes } from './nodes.ts'
import { answerOf, count, misconfigured, valuesOf } from './nodes.ts'
import type { Votes } from './votes.ts'

export interface Refused {
  readonly busy: true
  /** The attempt with a majority. */
  readonly attempt: string | undefined
  /** Undefined when the votes are split. */
  readonly holder: Holder | undefined
  readonly settled: boolean
  /** Until a node that refused is free by itself. */
  readonly remainingMs: number
}

interface Rules {
  readonly votes: Votes
  readonly fencing: boolean
  readonly inTime: () => boolean
}

type Ballot = bigint | Refusal

const isGrant = (ballot: Ballot | undefined): ballot is bigint => typeof ballot === 'bigint'

/** One vote: a majority of the nodes, or nothing left on any of them. Rejects when too few answer. */
export async function attemptAll(
  nodes: Nodes,
  request: AcquireRequest,
  { votes: ids, fencing, inTime }: Rules,
): Promise<{ readonly fence: bigint } | Refused> {
  const { name } = request
  const attemptId = ids.idOf(request.attemptId)
  const { quorum } = nodes
  const minority = nodes.all.length - quorum
  let verdict: bigint | 'open' | 'withdrawn' = 'open'
  const late: { readonly node: RedisNode; readonly vote: bigint }[] = []
  // A late grant still counts against other attempts, so it must carry the same fence. After a withdrawal, the release
  // that is queued behind it frees it, and nothing later, which could meet the next vote.
  const settleLate = (): void => {
    for (const { node, vote } of late.splice(0))
      if (fencing && typeof verdict === 'bigint' && vote !== verdict)
        nodes.track(node.raise(name, attemptId, verdict, vote))
  }
  const failed = (answers: Answers<Ballot>): number =>
    answers.filter((answer) => answer !== undefined && 'failure' in answer).length
  const answers = await nodes.ask((node) => voteOn(node, request, ids), {
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
  const votes = answers.map(answerOf)
  let failure = misconfigured(answers)
  if (failure !== undefined) {
    verdict = 'withdrawn'
    await withdrawVotes(nodes, request, votes, ids)
    throw failure
  }
  if (votes.filter(isGrant).length >= quorum) {
    const fence = votes.filter(isGrant).reduce((highest, vote) => (vote > highest ? vote : highest))
    // The fence is settled now, even if the grant is not.
    verdict = fence
    settleLate()
    failure = fencing ? await writeBack(nodes, { name, attemptId }, votes, fence) : undefined
    if (failure === undefined && inTime()) return { fence }
    failure ??= errors.unavailable(
      `${JSON.stringify(name)} was granted after its lease was over; it was withdrawn`,
    )
  }
  verdict = 'withdrawn'
  await withdrawVotes(nodes, request, votes, ids)
  const refusals = votes.filter((vote) => typeof vote === 'object')
  // Out of reach because other attempts hold it: busy. Because nodes do not answer: an outage.
  if (refusals.length > minority) return refusedBy(refusals, nodes, fencing)
  if (valuesOf(answers).length < quorum)
    throw nodes.outage(`no majority for ${JSON.stringify(name)}`, answers)
  if (failure !== undefined && refusals.length === 0) throw failure
  return refusedBy(refusals, nodes, fencing)
}

function voteOn(node: RedisNode, request: AcquireRequest, votes: Votes): Promise<Ballot> {
  return votes.on(node, request, (attemptId) => node.attempt({ ...request, attemptId }))
}

/** Another attempt was first at the node that is asked first. */
export interface Ahead {
  readonly busy: true
  readonly attempt: string | undefined
  readonly holder: Holder | undefined
}

/** All competitors ask the same node first: the one with its vote rarely meets another at the rest. */
export async function whoIsAhead(
  nodes: Nodes,
  request: AcquireRequest,
  { votes, fencing }: Pick<Rules, 'votes' | 'fencing'>,
): Promise<Ahead | undefined> {
  const ballot = await nodes.askFirst((node) => voteOn(node, request, votes))
  if (typeof ballot !== 'object') return undefined
  const [hold] = holdsIn([ballot], fencing)
  return { busy: true, attempt: ballot.attempt, holder: hold?.holder }
}

/**
 * Each node minted its own fence. The highest is written to a majority that still holds the lock: any later majority
 * shares a node with it, whose next fence is higher. Returns what went wrong.
 */
async function writeBack(
  nodes: Nodes,
  { name, attemptId }: Pick<AcquireRequest, 'name' | 'attemptId'>,
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

/** On every node that may have granted it, silent ones too: in order behind the attempt, whenever they read on. */
async function withdrawVotes(
  nodes: Nodes,
  { name, attemptId }: AcquireRequest,
  votes: readonly (Ballot | undefined)[],
  ids: Votes,
): Promise<void> {
  ids.withdraw(
    attemptId,
    nodes.all.filter((_, index) => typeof votes[index] !== 'object'),
  )
  const released = nodes.ask(
    (node) => ids.settle(node, name, attemptId),
    // Nodes that granted it must release it before others try again; the rest may take their time.
    { enough: (soFar) => votes.every((vote, index) => !isGrant(vote) || soFar[index] !== undefined) },
  )
  if (votes.some(isGrant)) await released
}

function refusedBy(refusals: readonly Refusal[], { quorum }: Nodes, fencing: boolean): Refused {
  const [first] = holdsIn(refusals, fencing)
  const settled = first !== undefined && first.votes.length >= quorum
  const remainingMs = Math.min(...refusals.map((refusal) => refusal.remainingMs))
  if (!settled) return { busy: true, attempt: undefined, holder: undefined, settled, remainingMs }
  return { busy: true, attempt: first.votes[0]?.attempt, holder: first.holder, settled, remainingMs }
}
