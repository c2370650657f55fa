import { batchesOf, ok, warning } from '@locks/core/adapter'
import type { Finding, Pruned } from '@locks/core/adapter'
import type { Connection, Primary } from './connection.ts'
import { layoutBeside, layoutOf, nameOf } from './record.ts'
import type { Layout } from './record.ts'
import { isOne, keysOf, listOf } from './script.ts'
import type { Keys } from './script.ts'
import * as scripts from './scripts.ts'

/** How many names are looked at in one step. */
const NAMES_PAGE = 1_000

/** How many pages of keys a finding looks at. */
const MAX_PAGES = 200

const DAY_MS = 86_400_000

const PREFIX = 'redisson_lock_token:'

/** The key of the lock that a fence belongs to. `x` and `{x}` share one fence. */
function lockOf(token: string): string {
  const rest = token.slice(PREFIX.length)
  return /^\{[^{]*\}$/.test(rest) ? rest.slice(1, -1) : rest
}

/** The keys of our fences on each primary, a page at a time. */
async function* tokens(connection: Connection): AsyncGenerator<readonly [Primary, string[]]> {
  const { prefix, cluster } = connection
  for await (const [primary, keys] of connection.scan('MATCH', `${PREFIX}*`, 'TYPE', 'string'))
    yield [primary, keys.filter((key) => nameOf(lockOf(key), cluster)?.startsWith(prefix))]
}

/**
 * Deletes fences of free names that were minted longer ago than `idleMs`: of these names, or of all. Not those that are
 * shared with Redisson, which would count from 1 again.
 */
export async function* pruneTokens(
  connection: Connection,
  idleMs: number,
  names?: readonly string[],
): AsyncGenerator<number, void> {
  if (connection.isShared) return
  const prune = (keys: Keys): Promise<boolean> => connection.run(scripts.prune, keys, [idleMs], isOne)
  for await (const page of names === undefined ? allOf(connection) : pagesOf(connection, names)) {
    const outcomes = await Promise.all(
      page.map(({ token, lock, queue }) => prune(keysOf([token, lock, queue]))),
    )
    yield outcomes.filter(Boolean).length
  }
}

async function* allOf(connection: Connection): AsyncGenerator<readonly Layout[]> {
  for await (const [, keys] of tokens(connection))
    yield keys.map((token) => layoutBeside(lockOf(token), connection.cluster))
}

function* pagesOf({ prefix, cluster }: Connection, names: readonly string[]): Generator<readonly Layout[]> {
  for (const page of batchesOf(names, NAMES_PAGE)) yield page.map((name) => layoutOf(prefix + name, cluster))
}

/** Of these names, those whose fences are shared with Redisson. */
export async function sharedAmong(connection: Connection, names: readonly string[]): Promise<Pruned['kept']> {
  if (!connection.isShared) return undefined
  let kept = 0
  for (const page of pagesOf(connection, names)) {
    const there = page.map(({ token }) => connection.run(scripts.isThere, keysOf([token]), [], isOne))
    kept += (await Promise.all(there)).filter(Boolean).length
  }
  return { names: kept, why: 'their fences are shared with Redisson, which would count from 1 again' }
}

/** How many fences are kept, and how old they are. */
export async function leftoversFinding(connection: Connection): Promise<Finding> {
  let [pages, kept, lasting] = [0, 0, 0]
  const oldest = { any: Infinity, lasting: Infinity }
  for await (const [primary, keys] of tokens(connection)) {
    kept += keys.length
    const found = keys.length === 0 ? [] : listOf(await primary.run(scripts.oldestTokens, keys))
    const [count = 0, any = 0, ofLasting = 0] = found.map(Number)
    lasting += count
    if (any > 0) oldest.any = Math.min(oldest.any, any)
    if (ofLasting > 0) oldest.lasting = Math.min(oldest.lasting, ofLasting)
    if (++pages >= MAX_PAGES) break
  }
  const check = 'leftovers'
  const many = pages >= MAX_PAGES ? `at least ${kept}` : `${kept}`
  const message = `the fences of ${many} names are kept`
  if (connection.isShared) return ok(check, `${message}; shared with Redisson, they never expire`)
  if (kept === 0) return ok(check, message)
  const aged = `${message}, the oldest for ${daysSince(oldest.any)} days`
  if (lasting === 0) return ok(check, `${aged}; each expires when its name is idle`)
  return warning(
    check,
    `${aged}; ${lasting} of them never expire, the oldest is ${daysSince(oldest.lasting)} days old`,
    'run locks prune, and set fenceIdleMs above 0 in every client',
  )
}

/** A fence is the time of its grant, in microseconds. */
function daysSince(fence: number): string {
  return Math.max(0, (Date.now() - fence / 1_000) / DAY_MS).toFixed(1)
}
