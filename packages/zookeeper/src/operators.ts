import { batchesOf } from '@locks/core/adapter'
import type { Holder, LockState, Pruned, Waiter } from '@locks/core/adapter'
import { errors, missingChroot } from './errors.ts'
import { holderOf } from './holders.ts'
import { isUnmarked, removeOwn } from './own-directories.ts'
import { directoryOf, inOrder, nameOf } from './paths.ts'
import type { Layout } from './paths.ts'
import { ifAllowed } from './requests.ts'
import type { Requests } from './requests.ts'

/** Give up after the holder has vanished this many times before it could be described. */
const MAX_TRIES = 30

/** How many waiters are described. */
const MAX_WAITING = 100

/** How many directories are read at a time. */
const BATCH = 50

/** Why a directory that may be our own stays. */
const UNMARKED =
  'an empty node without the text @locks/zookeeper may belong to another program; remove it by hand if it does not'

export async function inspect(requests: Requests, layout: Layout, name: string): Promise<LockState> {
  const directory = directoryOf(name, layout)
  await requests.catchUp()
  const state = await look(requests, directory, name)
  if (!state.held) await requireChroot(requests)
  const [, ...behind] = state.held ? inOrder(await requests.children(directory)) : []
  const nodes = behind
    .slice(0, MAX_WAITING)
    .map((node) => ifAllowed(holderOf(requests, `${directory}/${node}`)))
  // A node that is gone does not wait any more. Only a holder has a fence.
  const waiting = (await Promise.all(nodes)).flatMap((waiter) =>
    waiter === undefined ? [] : [waiterOf(waiter)],
  )
  return { ...state, waiting }
}

/** Nothing below a missing chroot is free: no lock can be acquired there. */
async function requireChroot(requests: Requests): Promise<void> {
  if ((await requests.exists('/')) === null) throw missingChroot()
}

function waiterOf({ owner, metadata, since }: Holder): Waiter {
  return { owner, ...(metadata !== undefined && { metadata }), ...(since !== undefined && { since }) }
}

/** With `rawPath`, where a lock can be anywhere, only the locks directly below the base path. */
export async function list(requests: Requests, layout: Layout, limit: number): Promise<readonly LockState[]> {
  await requests.catchUp()
  const segments = await requests.children(layout.basePath)
  if (segments.length === 0) await requireChroot(requests)
  const names = segments.map((segment) => nameOf(segment, layout)).filter((name) => name !== undefined)
  const held: LockState[] = []
  for (const batch of batchesOf(names, BATCH)) {
    if (held.length >= limit) break
    const states = await Promise.all(
      batch.map((name) => ifAllowed(look(requests, directoryOf(name, layout), name))),
    )
    for (const state of states) if (state?.held === true) held.push(state)
  }
  return held.slice(0, limit)
}

/**
 * Removes the directories of free locks that a crash left, if this package created them. The server refuses to remove
 * one that is in use, and the next fence is higher in any case, so it does not matter how long it was idle.
 */
export async function prune(requests: Requests, layout: Layout, names?: readonly string[]): Promise<Pruned> {
  // Other programs may rely on a directory at a raw path.
  if (layout.rawPath) return { pruned: 0, more: false }
  await requests.catchUp()
  const own = names ?? (await requests.children(layout.basePath)).flatMap((one) => nameOf(one, layout) ?? [])
  let [pruned, kept] = [0, 0]
  for (const batch of batchesOf(own, BATCH)) {
    const outcomes = batch.map((name) => ifAllowed(pruneOne(requests, directoryOf(name, layout))))
    for (const outcome of await Promise.all(outcomes)) {
      if (outcome === 'pruned') pruned += 1
      if (outcome === 'kept') kept += 1
    }
  }
  return { pruned, more: false, ...(kept > 0 && { kept: { names: kept, why: UNMARKED } }) }
}

async function pruneOne(requests: Requests, directory: string): Promise<'pruned' | 'kept' | undefined> {
  if (await removeOwn(requests, directory)) return 'pruned'
  const node = await requests.data(directory)
  return node !== undefined && isUnmarked(node) ? 'kept' : undefined
}

/** The next waiter watches the node that is removed here; the holder finds it missing at its next renewal. */
export async function breakHold(
  requests: Requests,
  directory: string,
  { fence }: Holder,
): Promise<'broken' | 'not-held'> {
  await requests.catchUp()
  const [head] = inOrder(await requests.children(directory))
  if (head === undefined || fence === undefined) return 'not-held'
  const path = `${directory}/${head}`
  const holder = await holderOf(requests, path)
  if (holder?.fence !== fence) return 'not-held'
  return (await requests.remove(path)) ? 'broken' : 'not-held'
}

async function look(requests: Requests, directory: string, name: string): Promise<LockState> {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const order = inOrder(await requests.children(directory))
    const [head] = order
    if (head === undefined) return { name, held: false, waiters: 0 }
    const holder = await holderOf(requests, `${directory}/${head}`)
    if (holder !== undefined) return { name, held: true, holder, waiters: order.length - 1 }
  }
  throw errors.unavailable('the lock changes hands faster than its holder can be read; try again')
}
