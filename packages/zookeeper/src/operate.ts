import type { Holder, LockState, Pruned, Waiter } from '@locks/core/adapter'
import { removeIfThere } from './chores.ts'
import { code, isRequestError, unavailable } from './errors.ts'
import { readHolder } from './holder.ts'
import { directoryOf, inOrder, nameOf } from './paths.ts'
import type { Layout } from './paths.ts'
import { catchUp, childrenOf } from './place.ts'
import type { Wire } from './wire.ts'

/** Give up after the holder was gone this many times before it could be described: the lock changes hands very fast. */
const MAX_TRIES = 30

/** So many waiters are described. */
const MAX_WAITING = 100

/** So many directories are looked at at a time. */
const BATCH = 50

export async function inspect(wire: Wire, layout: Layout, name: string): Promise<LockState> {
  const directory = directoryOf(name, layout)
  await catchUp(wire)
  const state = await look(wire, directory, name)
  const [, ...behind] = state.held ? inOrder(await childrenOf(wire, directory)) : []
  const nodes = behind.slice(0, MAX_WAITING).map((node) => readIfAllowed(wire, `${directory}/${node}`))
  // Those that have left meanwhile wait no more. A fence is a holder's.
  const waiting = (await Promise.all(nodes)).flatMap((waiter) =>
    waiter === undefined ? [] : [waiterOf(waiter)],
  )
  return { ...state, waiting }
}

async function readIfAllowed(wire: Wire, path: string): Promise<Holder | undefined> {
  try {
    return await readHolder(wire, path)
  } catch (error) {
    if (isRequestError(error, code.noAuth)) return undefined
    throw error
  }
}

function waiterOf({ owner, metadata, since }: Holder): Waiter {
  return { owner, ...(metadata !== undefined && { metadata }), ...(since !== undefined && { since }) }
}

/** With `rawPath`, where a lock can be anywhere, those right below the base path. */
export async function list(wire: Wire, layout: Layout, limit: number): Promise<readonly LockState[]> {
  await catchUp(wire)
  const segments = await childrenOf(wire, layout.basePath)
  const names = segments.map((segment) => nameOf(segment, layout)).filter((name) => name !== undefined)
  const held: LockState[] = []
  for (let at = 0; at < names.length && held.length < limit; at += BATCH) {
    const batch = names.slice(at, at + BATCH)
    const states = await Promise.all(batch.map((name) => lookIfAllowed(wire, layout, name)))
    for (const state of states) if (state?.held === true) held.push(state)
  }
  return held.slice(0, limit)
}

/**
 * Removes the directories of free locks that a crash left. The server refuses to remove one that is in use, and the
 * next fence is higher in any case, so it does not matter how long it was idle.
 */
export async function prune(wire: Wire, layout: Layout, names?: readonly string[]): Promise<Pruned> {
  // A path that is shared with other programs is not ours to remove.
  if (layout.rawPath) return { pruned: 0, more: false }
  await catchUp(wire)
  const own = names ?? (await childrenOf(wire, layout.basePath)).flatMap((one) => nameOf(one, layout) ?? [])
  let pruned = 0
  for (let at = 0; at < own.length; at += BATCH) {
    const removals = own.slice(at, at + BATCH).map((name) => removeIfEmpty(wire, directoryOf(name, layout)))
    pruned += (await Promise.all(removals)).filter(Boolean).length
  }
  return { pruned, more: false }
}

async function removeIfEmpty(wire: Wire, directory: string): Promise<boolean> {
  try {
    return await removeIfThere(wire, directory)
  } catch (error) {
    if (isRequestError(error, code.notEmpty) || isRequestError(error, code.noAuth)) return false
    throw error
  }
}

/** The next in line watches the node that is removed here, and its owner misses it when it renews. */
export async function breakHold(
  wire: Wire,
  directory: string,
  { fence }: Holder,
): Promise<'broken' | 'not-held'> {
  await catchUp(wire)
  const [head] = inOrder(await childrenOf(wire, directory))
  if (head === undefined || fence === undefined) return 'not-held'
  const path = `${directory}/${head}`
  const holder = await readHolder(wire, path)
  if (holder?.fence !== fence) return 'not-held'
  return (await removeIfThere(wire, path)) ? 'broken' : 'not-held'
}

async function look(wire: Wire, directory: string, name: string): Promise<LockState> {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const order = inOrder(await childrenOf(wire, directory))
    const [head] = order
    if (head === undefined) return { name, held: false, waiters: 0 }
    const holder = await readHolder(wire, `${directory}/${head}`)
    if (holder !== undefined) return { name, held: true, holder, waiters: order.length - 1 }
  }
  throw unavailable('the lock changes hands faster than it can be looked at')
}

/** Undefined for what is closed to us. */
async function lookIfAllowed(wire: Wire, layout: Layout, name: string): Promise<LockState | undefined> {
  try {
    return await look(wire, directoryOf(name, layout), name)
  } catch (error) {
    if (isRequestError(error, code.noAuth)) return undefined
    throw error
  }
}
