import { verdicts } from '@locks/core/adapter'
import type { Checks, Verdict } from '@locks/core/adapter'
import { notOursText } from './errors.ts'
import { otherStrategy } from './table-adapter.ts'
import type { StrategyRecord } from './table-adapter.ts'

const { ok, warning } = verdicts

/** Free names whose row is kept. */
export interface Leftovers {
  readonly names: number
  /** Time since the oldest of them was last granted. */
  readonly oldestMs: number
}

/** What `diagnose` knows of the tables, on any server. */
export interface TableFacts {
  readonly roundTripMs: number
  /** What the locks and the strategy are stored in; undefined where that is of no use. */
  readonly record: Pick<StrategyRecord, 'locks' | 'table'> | undefined
  /** The strategy that the locks belong to; undefined before the first use, or where it cannot be read. */
  readonly owner: string | undefined
  /** Undefined where they cannot be read. */
  readonly leftovers: Leftovers | undefined
}

const SLOW_MS = 100
const DAY_MS = 86_400_000

/** Within this many idle times a client has pruned, if any client releases locks at all. */
const LATE = 2

export const tableChecks: Checks<TableFacts, { readonly strategy: string; readonly fenceIdleMs: number }> = {
  'round-trip'({ roundTripMs }) {
    const message = `a round trip takes ${roundTripMs.toFixed(1)} ms`
    if (roundTripMs < SLOW_MS) return ok(message)
    return warning(message, 'move the client nearer to the server, or use ttls far above that')
  },

  /** Whether the locks belong to the strategy of this client. */
  strategy({ record, owner }, { strategy }) {
    if (record === undefined) return undefined
    if (owner === undefined) return ok(`no strategy has been used in ${record.locks} yet`)
    if (owner === strategy) return ok(`the locks of ${record.locks} belong to strategy ${owner}`)
    const { message, advice } = otherStrategy(record, strategy, owner)
    return warning(message, advice)
  },

  leftovers({ leftovers }, { fenceIdleMs }) {
    if (leftovers === undefined) return undefined
    const { names, oldestMs } = leftovers
    const days = (oldestMs / DAY_MS).toFixed(1)
    const message = `rows of ${names} free names are kept, the oldest for ${days} days`
    if (oldestMs < (fenceIdleMs === 0 ? DAY_MS : fenceIdleMs * LATE)) return ok(message)
    if (fenceIdleMs === 0)
      return warning(
        `${message}; fenceIdleMs is 0`,
        'run locks prune now and then, or set fenceIdleMs above 0',
      )
    const later = 'clients prune after their releases, most of them once they have run for ten minutes'
    return warning(message, `run locks prune; ${later}`)
  },
}

/** A table that is not ours. Where the strategy is recorded it was ours once, and locks may be held there. */
export function foreignVerdict(adapter: string, table: string, isRecorded: boolean): Verdict {
  if (!isRecorded)
    return warning(
      `${notOursText(adapter, table)}; no lock can be acquired`,
      'set table or schema to another name',
    )
  return warning(
    `${table} has other columns than ${adapter} gives it; migrate() and prune() are refused, and acquires may fail`,
    'undo that change of the table, or set table or schema to another name',
  )
}

/** Whether the server has room for the connections that this client may open. */
export function connectionsVerdict(inUse: number, room: number, wanted: number, lower: string): Verdict {
  const message = `${inUse} of ${room} connections are in use; this client may open ${wanted}`
  if (inUse + wanted <= room) return ok(message)
  return warning(message, `raise max_connections, or lower ${lower}`)
}
