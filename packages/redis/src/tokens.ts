import type { Finding, Pruned } from '@locks/core/adapter'
import type { Connection, Primary } from './connection.ts'
import { layoutBeside, layoutOf, nameOf } from './layout.ts'
import type { Layout } from './layout.ts'
import { isOne, listOf } from './replies.ts'
import { keysOf } from './script-call.ts'
import type { Keys } from './script-call.ts'
import * as scripts from './scripts.ts'

/** Keys that one step of a search through all of them passes. */
const SCAN_PAGE = 1_000

/** So many keys of a server are looked at for a finding. */
const MOST_PAGES = 200

const PREFIX = 'redisson_lock_token:'

/** The key of the lock that a fence belongs to. `x` and `{x}` share theirs. */
function lockOf(token: string): string {
  const rest = token.slice(PREFIX.length)
  return /^\{[^{]*\}$/.test(rest) ? rest.slice(1, -1) : rest
}

/** The keys of our fences on each primary, a page at a time. */
async function* tokens(connection: Connection): AsyncGenerator<readonly [Primary, string[]]> {
  const { prefix, cluster } = connection
  for (const primary of await connection.primaries()) {
    let cursor = '0'
    do {
      const args = ['MATCH', `${PREFIX}*`, 'COUNT', SCAN_PAGE, 'TYPE', 'string']
      const [next, keys] = listOf(await primary.ask('scan', cursor, ...args))
      cursor = String(next)
      const own = listOf(keys)
        .map(String)
        .filter((key) => nameOf(lockOf(key), cluster)?.startsWith(prefix))
      yield [primary, own]
    } while (cursor !== '0')
  }
}

/**
 * Deletes fences of free names that were minted longer ago than `idleMs`: of these names, or of all. Not those that are
 * shared with Redisson, which would count from 1 again.
 */
export async function* forgetTokens(
  connection: Connection,
  idleMs: number,
  names?: readonly string[],
): AsyncGenerator<number, void> {
  if (connection.isShared) return
  const forget = (keys: Keys): Promise<boolean> => connection.run(scripts.forget, keys, [idleMs], isOne)
  for await (const page of names === undefined ? allOf(connection) : pagesOf(connection, names)) {
    const outcomes = await Promise.all(
      page.map(({ token, lock, queue }) => forget(keysOf([token, lock, queue]))),
    )
    yield outcomes.filter(Boolean).length
  }
}

async function* allOf(connection: Connection): AsyncGenerator<readonly Layout[]> {
  for await (const [, keys] of tokens(connection))
    yield keys.map((token) => layoutBeside(lockOf(token), connection.cluster))
}

function* pagesOf({ prefix, cluster }: Connection, names: readonly string[]): Generator<readonly Layout[]> {
  for (let at = 0; at < names.length; at += SCAN_PAGE)
    yield names.slice(at, at + SCAN_PAGE).map((name) => layoutOf(prefix + name, cluster))
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

/** How many fences are kept, and since when those that never expire. */
export async function leftoversFinding(connection: Connection): Promise<Finding> {
  let [pages, kept, lasting, oldest] = [0, 0, 0, Infinity]
  for await (const [primary, keys] of tokens(connection)) {
    kept += keys.length
    const found = keys.length === 0 ? [] : listOf(await primary.run(scripts.lastingTokens, keys))
    const [count, least] = found.map(Number)
    lasting += count ?? 0
    if (least !== undefined && least > 0) oldest = Math.min(oldest, least)
    if (++pages >= MOST_PAGES) break
  }
  const check = 'leftovers'
  const many = pages >= MOST_PAGES ? `at least ${kept}` : `${kept}`
  const days = Math.max(0, Math.floor((Date.now() - oldest / 1_000) / 86_400_000))
  const message = `the fences of ${many} names are kept`
  if (connection.isShared)
    return { check, level: 'ok', message: `${message}; shared with Redisson, they never expire` }
  if (lasting === 0) return { check, level: 'ok', message: `${message}; each expires when its name is idle` }
  return {
    check,
    level: 'warning',
    message: `${message}, ${lasting} of them without an end, for up to ${days} days`,
    advice: 'run locks prune, and see that every client has a fenceIdleMs above 0',
  }
}
