import { Upkeep } from '@locks/core/adapter'
import type { Adapter, Capabilities, Clock } from '@locks/core/adapter'
import type { SqlErrors } from './errors.ts'
import { claimed } from './strategy-claim.ts'
import type { StrategyRecord } from './strategy-claim.ts'

/** What the adapter of any strategy needs around its locks. */
export interface TableUse {
  readonly strategy: string
  readonly record: StrategyRecord
  readonly fenceIdleMs: number
  readonly errors: SqlErrors
}

/** An adapter whose strategy is recorded beside its tables, and which prunes idle names after its releases. */
export function tableAdapter<C extends Capabilities>(
  adapter: Adapter<C> & Required<Pick<Adapter<C>, 'prune' | 'close'>>,
  { strategy, record, fenceIdleMs, errors }: TableUse,
  clock: Clock,
): Adapter<C> {
  const upkeep = new Upkeep(clock, fenceIdleMs, () => adapter.prune(fenceIdleMs))
  const kept: Adapter<C> = {
    ...adapter,

    async release(...call) {
      const outcome = await adapter.release(...call)
      upkeep.released()
      return outcome
    },

    async close() {
      await upkeep.close()
      await adapter.close()
    },
  }
  return claimed(kept, strategy, record, errors)
}
