import type { Adapter, AdapterHost, Capabilities } from '@locks/core'
import { Lines, sessionHolds } from '@locks/sql'
import { diagnose } from './diagnose.ts'
import { Line } from './line.ts'
import { rowOperations } from './operations.ts'
import type { Settings } from './options.ts'
import { refusingPoolers } from './pooler.ts'
import { rowDriver } from './row-driver.ts'
import { runnerFor } from './runner.ts'
import { rowStatements } from './sql.ts'

export interface RowCapabilities extends Capabilities {
  readonly kind: 'connection'
  readonly fencing: 'durable'
  readonly wait: 'handoff'
  readonly handover: false
  readonly lockDelay: false
}

const capabilities: RowCapabilities = {
  scope: 'cluster',
  kind: 'connection',
  fencing: 'durable',
  wait: 'handoff',
  fairness: 'fifo',
  handover: false,
  lockDelay: false,
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

  return {
    name: '@locks/postgres',
    capabilities,
    ...sessionHolds({ driver, lines, faults, sessionTtlMs }, host),
    ...rowOperations(sql, runner, clock),
    diagnose: () => diagnose(settings, clock),

    async inspect(name) {
      const by = await driver.holderOf(name)
      return by === undefined ? { name, held: false } : { name, held: true, holder: by.holder }
    },

    async close() {
      await Promise.all([lines.close(), runner.close()])
    },
  }
}
