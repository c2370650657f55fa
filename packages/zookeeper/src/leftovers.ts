import { batchesOf, ok, warning } from '@locks/core/adapter'
import type { Finding } from '@locks/core/adapter'
import { isOwn, isUnmarked } from './own-directories.ts'
import { directoryOf, nameOf } from './paths.ts'
import type { Layout } from './paths.ts'
import { ifAllowed } from './requests.ts'
import type { Requests } from './requests.ts'

/** How many directories are looked at. */
const MOST = 10_000

/** How many directories are read at a time. */
const BATCH = 50

/** A lock in use may be free at this moment, so a few are no reason to act. */
const MANY = 100

const DAY_MS = 86_400_000

/** How many directories of free locks there are, and how old they are. */
export async function leftoversFinding(requests: Requests, layout: Layout): Promise<Finding> {
  const check = 'leftovers'
  if (layout.rawPath) return ok(check, 'not checked: with rawPath no directory is removed')
  const children = await ifAllowed(requests.children(layout.basePath))
  if (children === undefined) return ok(check, 'not checked: this client may not list the base path')
  const names = children.flatMap((segment) => nameOf(segment, layout) ?? [])
  let [kept, oldestMs, unmarked] = [0, 0, 0]
  for (const batch of batchesOf(names.slice(0, MOST), BATCH)) {
    const looks = batch.map((name) => ifAllowed(requests.data(directoryOf(name, layout))))
    for (const found of await Promise.all(looks)) {
      if (found === undefined || found.stat.numChildren > 0) continue
      if (isUnmarked(found)) unmarked += 1
      if (!isOwn(found)) continue
      kept += 1
      oldestMs = Math.max(oldestMs, Date.now() - Number(found.stat.ctime.readBigInt64BE()))
    }
  }
  const many = names.length > MOST ? `at least ${kept}` : `${kept}`
  const days = (oldestMs / DAY_MS).toFixed(1)
  const age = kept === 0 ? '' : `, the oldest was created ${days} days ago`
  const unsure =
    unmarked === 0 ? '' : `; ${unmarked} empty nodes may be directories of an earlier version, and stay`
  const message = `${many} free locks have a directory${age}${unsure}`
  if (kept >= MANY && oldestMs >= DAY_MS)
    return warning(
      check,
      message,
      'run locks prune; a client that crashes leaves the directories of its locks',
    )
  if (unmarked < MANY) return ok(check, message)
  return warning(check, message, 'remove by hand the empty nodes that belong to no other program')
}
