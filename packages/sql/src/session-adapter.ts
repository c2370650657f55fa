import { pause } from '@locks/core/adapter'
import type { Adapter, AdapterHost, Capabilities, Holder } from '@locks/core/adapter'
import type { Connection } from './connection.ts'
import { sessionHolds } from './session-holds.ts'
import type { SessionOptions } from './session.ts'
import { tableAdapter } from './table-adapter.ts'
import type { TableUse } from './table-adapter.ts'

/** A connection that the server was asked to end does so at once, except on a busy machine. */
const ENDS_WITHIN_MS = 3_000
const LOOK_AGAIN_MS = 10

export interface SessionAdapterOptions<C extends Connection, Caps extends Capabilities>
  extends
    SessionOptions<C>,
    TableUse,
    Required<Pick<Adapter<Caps>, 'name' | 'capabilities' | 'diagnose' | 'prune' | 'close'>> {}

/** An adapter whose locks are each held by a connection. `close` ends what it opened beside `connections`. */
export function sessionAdapter<C extends Connection, Caps extends Capabilities>(
  options: SessionAdapterOptions<C, Caps>,
  host: AdapterHost,
): Adapter<Caps> {
  const { driver, connections, errors, sessionTtlMs, strategy, record, creation, fenceIdleMs, ...rest } =
    options
  const adapter = {
    ...rest,
    ...sessionHolds({ driver, connections, errors, sessionTtlMs }, host),

    async inspect(name) {
      const by = await driver.holderOf(name)
      return by === undefined ? { name, held: false } : { name, held: true, holder: by.holder }
    },

    list: (limit) => driver.list(limit),

    async break(name, holder) {
      const by = await driver.holderOf(name)
      if (by === undefined || !isSame(by.holder, holder)) return 'not-held'
      if (!(await driver.breakHold(name, by.attemptId))) return 'not-held'
      const until = host.clock.now() + ENDS_WITHIN_MS
      while ((await driver.holderOf(name))?.attemptId === by.attemptId) {
        if (host.clock.now() >= until)
          throw errors.unavailable(
            'the server has not ended the connection of that hold yet; the lock is still held, break it again',
          )
        await pause(host.clock, LOOK_AGAIN_MS)
      }
      return 'broken'
    },

    async close() {
      await Promise.all([connections.close(), rest.close()])
    },
  } satisfies Adapter<Caps>
  const prepare = (): Promise<void> => connections.warm()
  const use = { strategy, record: { ...record, prepare }, creation, fenceIdleMs, errors }
  return tableAdapter(adapter, use, host.clock)
}

/** The fence identifies a hold. A transaction that holds a name by itself shows none: its owner identifies it. */
function isSame(one: Holder, other: Holder): boolean {
  return one.fence === other.fence && (one.fence !== undefined || one.owner === other.owner)
}
