import { capabilities } from '@locks/core/adapter'
import type { Adapter, AdapterHost, CapabilitiesOf } from '@locks/core/adapter'
import { ConnectionPool, PRUNE_BATCH, sessionAdapter } from '@locks/sql'
import { PostgresConnection } from './connection.ts'
import { diagnose } from './diagnose.ts'
import { rowOperators } from './operators.ts'
import type { Settings } from './options.ts'
import { refusingPoolers } from './pooler.ts'
import { rowDriver } from './row-driver.ts'
import { runnerFor } from './runner.ts'
import { bytesOf, rowStatements } from './sql.ts'
import { strategyRecord } from './strategy.ts'

const given = { kind: 'connection', wait: 'handoff', fairness: 'fifo', list: true, break: true } as const
export type RowCapabilities = CapabilitiesOf<typeof given>

export function rowAdapter(settings: Settings, host: AdapterHost): Adapter<RowCapabilities> {
  const { config, maxConnections, sessionTtlMs, fenceIdleMs, place, errors } = settings
  const { clock } = host
  const runner = runnerFor(settings, clock)
  const sql = rowStatements(place)
  const openConnection = refusingPoolers((closing) =>
    PostgresConnection.open(config, { pipeline: true, closing }),
  )
  let warmed: Promise<void> | undefined
  const open = (closing: AbortSignal): Promise<PostgresConnection> => {
    // The first hold needs a connection of the runner too. If this one fails, the statement that needs it fails.
    warmed ??= runner.warm().catch(() => undefined)
    return openConnection(closing)
  }
  return sessionAdapter(
    {
      name: '@locks/postgres',
      capabilities: capabilities(given),
      strategy: 'row',
      record: strategyRecord(place, runner),
      driver: rowDriver(sql, runner),
      connections: new ConnectionPool({ open, max: maxConnections, clock, errors }),
      errors,
      sessionTtlMs,
      fenceIdleMs,
      ...rowOperators(sql, runner, clock),
      diagnose: () => diagnose(settings, clock),
      async prune(idleMs, names) {
        const [[count]] = await runner.ask(sql.prune, [idleMs, PRUNE_BATCH, bytesOf(names)])
        const pruned = Number(count)
        return { pruned, more: pruned === PRUNE_BATCH }
      },
      close: () => runner.close(),
    },
    host,
  )
}
