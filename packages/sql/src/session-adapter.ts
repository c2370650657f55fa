import { Upkeep } from '@locks/core/adapter'
import type { Adapter, AdapterHost, Capabilities } from '@locks/core/adapter'
import type { Connection } from './connection.ts'
import { sessionHolds } from './session-holds.ts'
import type { SessionHoldsOptions } from './session-holds.ts'
import { claimed } from './strategy-claim.ts'
import type { StrategyRecord } from './strategy-claim.ts'

export interface SessionAdapterOptions<C extends Connection, Caps extends Capabilities>
  extends
    Omit<SessionHoldsOptions<C>, 'released'>,
    Required<
      Pick<Adapter<Caps>, 'name' | 'capabilities' | 'list' | 'break' | 'diagnose' | 'prune' | 'close'>
    > {
  readonly strategy: string
  readonly record: StrategyRecord
  readonly fenceIdleMs: number
}

/** An adapter whose locks are each held by a connection. `close` ends what it opened beside `connections`. */
export function sessionAdapter<C extends Connection, Caps extends Capabilities>(
  options: SessionAdapterOptions<C, Caps>,
  host: AdapterHost,
): Adapter<Caps> {
  const { driver, connections, errors, sessionTtlMs, strategy, record, fenceIdleMs, ...rest } = options
  const upkeep = new Upkeep(host.clock, fenceIdleMs, () => rest.prune(fenceIdleMs))
  const adapter: Adapter<Caps> = {
    ...rest,
    ...sessionHolds({ driver, connections, errors, sessionTtlMs, released: () => upkeep.released() }, host),

    async inspect(name) {
      const by = await driver.holderOf(name)
      return by === undefined ? { name, held: false } : { name, held: true, holder: by.holder }
    },

    async close() {
      await upkeep.close()
      await Promise.all([connections.close(), rest.close()])
    },
  }
  const prepare = async (): Promise<void> => connections.give(await connections.take())
  return claimed(adapter, strategy, { ...record, prepare }, errors)
}
