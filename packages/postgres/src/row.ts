import { Upkeep } from '@locks/core/adapter'
import type { Adapter, AdapterHost, Capabilities, Pruned } from '@locks/core/adapter'
import { claimed, Lines, PRUNE_BATCH, sessionHolds } from '@locks/sql'
import { diagnose } from './diagnose.ts'
import { Line } from './line.ts'
import { rowOperations } from './operations.ts'
import type { Settings } from './options.ts'
import { refusingPoolers } from './pooler.ts'
import { rowDriver } from './row-driver.ts'
import { runnerFor } from './runner.ts'
import { bytesOf, rowStatements } from './sql.ts'
import { strategyRecord } from './strategy.ts'

export interface RowCapabilities extends Capabilities {
  readonly kind: 'connection'
  readonly fencing: 'durable'
  readonly wait: 'handoff'
  readonly handover: false
  readonly lockDelay: false
  readonly minHold: false
}

const capabilities: RowCapabilities = {
  scope: 'cluster',
  kind: 'connection',
  fencing: 'durable',
  wait: 'handoff',
  fairness: 'fifo',
  handover: false,
  lockDelay: false,
  minHold: false,
  list: true,
  break: true,
  modes: ['exclusive'],
  minTtlMs: 100,
  maxNameBytes: 1024,
}

export function rowAdapter(settings: Settings, host: AdapterHost): Adapter<RowCapabilities> {
  const { config, maxConnections, sessionTtlMs, place, faults } = settings
  const { clock } = host
  const runner = runnerFor(settings, clock)
  const sql = rowStatements(place)
  const driver = rowDriver(sql, runner)
  const openLine = refusingPoolers((closing) => Line.open(config, { pipeline: true, closing }))
  let warmed: Promise<void> | undefined
  const open = (closing: AbortSignal): Promise<Line> => {
    // The first hold needs one of either kind, and soon. If this one fails, whoever needs it is told.
    warmed ??= runner.warm().catch(() => undefined)
    return openLine(closing)
  }
  const lines = new Lines({ open, max: maxConnections, clock, faults })

  const upkeep = new Upkeep(clock, settings.fenceIdleMs, () => prune(settings.fenceIdleMs))

  async function prune(idleMs: number, names?: readonly string[]): Promise<Pruned> {
    const [[count]] = await runner.ask(sql.prune, [idleMs, PRUNE_BATCH, bytesOf(names)])
    const pruned = Number(count)
    return { pruned, more: pruned === PRUNE_BATCH }
  }

  const adapter: Adapter<RowCapabilities> = {
    name: '@locks/postgres',
    capabilities,
    ...sessionHolds({ driver, lines, faults, sessionTtlMs, released: () => upkeep.released() }, host),
    ...rowOperations(sql, runner, clock),
    diagnose: () => diagnose(settings, clock),
    prune,

    async inspect(name) {
      const by = await driver.holderOf(name)
      return by === undefined ? { name, held: false } : { name, held: true, holder: by.holder }
    },

    async close() {
      await upkeep.close()
      await Promise.all([lines.close(), runner.close()])
    },
  }
  const prepare = async (): Promise<void> => lines.give(await lines.take())
  return claimed(adapter, 'row', { ...strategyRecord(place, runner), prepare }, faults)
}
