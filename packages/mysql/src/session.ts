import { Upkeep } from '@locks/core/adapter'
import type { Adapter, AdapterHost, Capabilities, Pruned } from '@locks/core/adapter'
import { claimed, Lines, onAnyLine, sessionHolds } from '@locks/sql'
import { diagnose } from './diagnose.ts'
import { Line } from './line.ts'
import type { Settings } from './options.ts'
import { pruneCounters, pruneRows } from './prune.ts'
import { runnerFor, setUp } from './runner.ts'
import { sessionDriver } from './session-driver.ts'
import { FOREVER_S, hasKey, lockNameOf, sessionStatements } from './sql.ts'
import { strategyRecord } from './strategy.ts'

/** How long a connection that was killed may take to be gone, and how often that is looked for. */
const GONE_MS = 3_000
const LOOK_MS = 10

export interface SessionCapabilities extends Capabilities {
  readonly kind: 'connection'
  readonly fencing: 'durable'
  readonly wait: 'handoff'
  readonly handover: false
  readonly lockDelay: false
  readonly minHold: false
  readonly list: true
  readonly break: true
}

const capabilities: SessionCapabilities = {
  scope: 'cluster',
  kind: 'connection',
  fencing: 'durable',
  wait: 'handoff',
  // MySQL 8 prefers whoever keeps most others waiting.
  fairness: 'none',
  handover: false,
  lockDelay: false,
  minHold: false,
  list: true,
  break: true,
  modes: ['exclusive'],
  minTtlMs: 1_000,
  maxNameBytes: 1024,
}

/** Strategies `row` and `named`: a lock is held by a connection, and by nothing else. */
export function sessionAdapter(
  settings: Settings,
  strategy: 'row' | 'named',
  host: AdapterHost,
): Adapter<SessionCapabilities> {
  const { config, place, maxConnections, sessionTtlMs, faults } = settings
  const { clock } = host
  const runner = runnerFor(settings, clock)
  const lockName = (name: string): string => lockNameOf(place, config.database ?? '', strategy, name)
  const driver = sessionDriver(sessionStatements(place, strategy), runner, lockName)
  const open = (closing: AbortSignal): Promise<Line> => Line.open(config, setUp(FOREVER_S), closing)
  const lines = new Lines({ open, max: maxConnections, clock, faults })

  /** A connection that was killed undoes its transaction first and gives up its key last. */
  async function gone(key: string): Promise<void> {
    const until = clock.now() + GONE_MS
    while ((await runner.look(hasKey, [key]))[0]?.[0] === '1') {
      if (clock.now() >= until) throw faults.unavailable('the connection of this hold is being ended')
      await new Promise<void>((resolve) => void clock.timer(LOOK_MS, resolve))
    }
  }

  async function prune(idleMs: number, names?: readonly string[]): Promise<Pruned> {
    const counters = await pruneCounters(runner, place, strategy, idleMs, names)
    if (strategy === 'named' || lines.full) return counters
    const more = await onAnyLine(lines, clock, (line) =>
      pruneRows((text, values) => line.query(text, values), place, clock, names),
    )
    return { pruned: counters.pruned, more: counters.more || more }
  }

  const upkeep = new Upkeep(clock, settings.fenceIdleMs, () => prune(settings.fenceIdleMs))

  const adapter: Adapter<SessionCapabilities> = {
    name: '@locks/mysql',
    capabilities,
    ...sessionHolds({ driver, lines, faults, sessionTtlMs, released: () => upkeep.released() }, host),

    async inspect(name) {
      return (await driver.holdOf(name))?.state ?? { name, held: false }
    },

    list: (limit) => driver.list(limit),

    async break(name, { fence }) {
      const hold = await driver.holdOf(name)
      if (hold === undefined || hold.state.holder.fence !== fence) return 'not-held'
      await driver.kill(hold.key)
      await gone(hold.key)
      return 'broken'
    },

    diagnose: () => diagnose(settings, runner, clock),
    prune,

    async close() {
      await upkeep.close()
      await Promise.all([lines.close(), runner.close()])
    },
  }
  const prepare = async (): Promise<void> => lines.give(await lines.take())
  return claimed(adapter, strategy, { ...strategyRecord(place, runner), prepare }, faults)
}
