import { isLockError } from '@locks/core/adapter'
import type { LockState } from '@locks/core/adapter'
import type { Nodes } from './nodes.ts'
import { valuesOf } from './nodes.ts'
import { holdOf, stateOf } from './state.ts'

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
