import type { StrategyRecord } from '@locks/sql'
import { lockOf } from './advisory-sql.ts'
import { holderTable } from './holders.ts'
import type { HolderTable } from './holders.ts'
import type { Place } from './options.ts'
import type { Runner } from './runner.ts'
import { living, namesOf, onPrimary, statement } from './sql.ts'

/** Holders without a table: the server knows which locks are held, and by which backend. */
export function unfencedHolders(place: Place, runner: Runner): HolderTable {
  const fenced = holderTable(place, runner)
  const held = statement(`WITH ${living} SELECT $2::text, max(living.pid) FROM living
WHERE living.key = $1::bigint AND ${onPrimary}`)
  return {
    isAlive: (key) => fenced.isAlive(key),
    isThere: (pid) => fenced.isThere(pid),
    cancel: (pid) => fenced.cancel(pid),
    mint: () => Promise.resolve(0n),
    async holderOf(name) {
      const [[pid]] = await runner.ask(held, [lockOf(place, name)])
      return pid === null ? undefined : { attemptId: '', holder: { owner: `backend ${pid}` } }
    },
    list: () => Promise.resolve([]),
    // Which connection a lost hold was on is not recorded. The server ends it by itself.
    evict: () => Promise.resolve(false),
  }
}

/** Without a table there is no record of the strategy. */
export function unfencedRecord(place: Place): StrategyRecord {
  const { locks, strategy: table } = namesOf(place)
  return { locks, table, read: () => Promise.resolve('advisory'), write: () => Promise.resolve() }
}
