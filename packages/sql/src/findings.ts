import { ok, warning } from '@locks/core/adapter'
import type { Finding } from '@locks/core/adapter'
import { otherStrategy } from './strategy-claim.ts'
import type { StrategyRecord } from './strategy-claim.ts'

/** Free names whose row is kept. */
export interface Leftovers {
  readonly names: number
  /** Time since the oldest of them was last granted. */
  readonly oldestMs: number
}

const DAY_MS = 86_400_000

/** Within this many idle times a client has pruned, if any client releases locks at all. */
const LATE = 2

export function leftoversFinding({ names, oldestMs }: Leftovers, fenceIdleMs: number): Finding {
  const days = (oldestMs / DAY_MS).toFixed(1)
  const message = `rows of ${names} free names are kept, the oldest for ${days} days`
  if (oldestMs < (fenceIdleMs === 0 ? DAY_MS : fenceIdleMs * LATE)) return ok('leftovers', message)
  return fenceIdleMs === 0
    ? warning(
        'leftovers',
        `${message}; fenceIdleMs is 0`,
        'run locks prune now and then, or set fenceIdleMs above 0',
      )
    : warning(
        'leftovers',
        message,
        'run locks prune; clients prune after their releases once they have run for ten minutes',
      )
}

/** Whether the locks belong to the strategy of this client. `owner` is undefined before the first use. */
export function strategyFinding(
  record: Pick<StrategyRecord, 'locks' | 'table'>,
  strategy: string,
  owner: string | undefined,
): Finding {
  const { locks } = record
  if (owner === undefined) return ok('strategy', `no strategy has been used in ${locks} yet`)
  if (owner === strategy) return ok('strategy', `the locks of ${locks} belong to strategy ${owner}`)
  const { message, advice } = otherStrategy(record, strategy, owner)
  return warning('strategy', message, advice)
}

/** Whether the server has room for the connections that this client may open. */
export function connectionsFinding(inUse: number, room: number, wanted: number, lower: string): Finding {
  const message = `${inUse} of ${room} connections are in use; this client may open ${wanted}`
  if (inUse + wanted <= room) return ok('connections', message)
  return warning('connections', message, `raise max_connections, or lower ${lower}`)
}

const SLOW_MS = 100

export function roundTripFinding(ms: number): Finding {
  const message = `a round trip takes ${ms.toFixed(1)} ms`
  if (ms < SLOW_MS) return ok('round-trip', message)
  return warning('round-trip', message, 'move the client nearer to the server, or use ttls far above that')
}
