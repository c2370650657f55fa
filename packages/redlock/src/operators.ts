import { isLockError } from '@locks/core/adapter'
import type { Holder, LockState } from '@locks/core/adapter'
import type { Look, RedisNode } from '@locks/redis/node'
import { errors } from './errors.ts'
import { holdsIn, isSameHold } from './hold.ts'
import type { Hold } from './hold.ts'
import type { Nodes } from './nodes.ts'
import { count, valuesOf } from './nodes.ts'

// What operators see and do, on a majority of the nodes.

/**
 * A holder needs a majority under one fence. Silent nodes count in its favour: no other attempt can have a majority
 * then.
 */
async function holdOf(
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

function stateOf(name: string, hold: Hold | undefined, quorum: number): LockState {
  if (hold === undefined) return { name, held: false }
  const { holder, votes } = hold
  const times = votes.map(({ remainingMs }) => remainingMs).toSorted((a, b) => b - a)
  return { name, held: true, holder, remainingMs: times[quorum - 1] ?? times.at(-1) ?? 0 }
}

export async function inspect(nodes: Nodes, name: string, fencing: boolean): Promise<LockState> {
  return stateOf(name, await holdOf(nodes, name, fencing), nodes.quorum)
}

/** How long a search through all names of a node may take. */
const SEARCH_MS = 600_000

/** How many names are looked up at a time, so that none times out in a queue. */
const LOOKS = 100

/** A key that is not a lock on a majority does not end the list. */
async function holdUnlessForeign(...ask: Parameters<typeof holdOf>): ReturnType<typeof holdOf> {
  try {
    return await holdOf(...ask)
  } catch (error) {
    if (!isLockError(error, 'LOCK_INVALID_ARGUMENT') || error.cause !== undefined) throw error
    return undefined
  }
}

/**
 * A name that a majority holds is held on at least one of any `count - quorum + 1` nodes. So that many nodes are
 * searched for names, the fastest first, and each name is looked up on all.
 */
export async function listHeld(nodes: Nodes, limit: number, fencing: boolean): Promise<readonly LockState[]> {
  const { quorum, all } = nodes
  // Nodes have the same names: each is looked up once.
  const looks = new Map<string, Promise<LockState>>()
  const held = new Map<string, LockState>()
  const look = async (name: string): Promise<LockState> => {
    const state = stateOf(name, await holdUnlessForeign(nodes, name, fencing), quorum)
    if (state.held) held.set(name, state)
    return state
  }
  const lookOnce = (name: string): Promise<LockState> => {
    const known = looks.get(name) ?? look(name)
    looks.set(name, known)
    return known
  }
  let over = false
  const found = async (names: readonly string[]): Promise<boolean> => {
    for (let from = 0; from < names.length && !over; from += LOOKS) {
      await Promise.all(names.slice(from, from + LOOKS).map(lookOnce))
      over ||= held.size >= limit
    }
    return !over
  }
  const isEnough = (searched: readonly unknown[]): boolean => over || searched.length > all.length - quorum
  const answers = await nodes.ask(
    async (node) => {
      await node.names(found)
      return true
    },
    { enough: (soFar) => isEnough(valuesOf(soFar)), timeoutMs: SEARCH_MS },
  )
  const enough = isEnough(valuesOf(answers))
  over = true
  if (!enough) throw nodes.outage('a majority could not be searched', answers)
  return [...held.values()].slice(0, limit)
}

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
  const answers = await nodes.ask((node) => releaseOn(node, name, hold), {
    enough: (soFar) => valuesOf(soFar).length >= nodes.quorum,
  })
  if (valuesOf(answers).length >= nodes.quorum) return 'broken'
  throw nodes.outage(`${JSON.stringify(name)} was not broken on a majority`, answers)
}

function isOf(hold: Hold, { owner, fence }: Holder): boolean {
  if (fence !== undefined) return hold.holder.fence === fence
  return hold.holder.fence === undefined && hold.votes.some((vote) => vote.holder?.owner === owner)
}

async function releaseOn(node: RedisNode, name: string, { votes }: Hold): Promise<unknown> {
  const [first] = votes
  const alike = votes.every(({ attempt }) => attempt === first?.attempt)
  if (first?.attempt !== undefined && alike && first.holder?.fence !== undefined)
    return node.release(name, first.attempt)
  // RedissonRedLock has another id on each node.
  const look = await node.look(name)
  if (first === undefined || look.attempt === undefined || !isSameHold(look, first)) return undefined
  return node.release(name, look.attempt)
}

/**
 * One node after the other. Each decides by its own clock: what it drops is below the fences that it mints from then
 * on, also if the fence came from a node whose clock is ahead.
 */
export async function* pruneAll(
  { all }: Nodes,
  idleMs: number,
  names?: readonly string[],
): AsyncGenerator<number, void> {
  let most = 0
  for (const node of all) {
    let pruned = 0
    for await (const some of node.prune(idleMs, names)) {
      pruned += some
      yield 0
    }
    most = Math.max(most, pruned)
  }
  // Nodes keep the same names, except those that were out of reach.
  yield most
}
