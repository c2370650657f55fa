import { capabilities } from '@locks/core/adapter'
import type { Adapter, AdapterHost, CapabilitiesOf } from '@locks/core/adapter'
import { ConnectionPool, sessionAdapter } from '@locks/sql'
import { PostgresConnection } from './connection.ts'
import { diagnose } from './diagnose.ts'
import type { Settings } from './options.ts'
import { refusingPoolers } from './pooler.ts'
import { rowDriver } from './row-driver.ts'
import { runnerFor } from './runner.ts'
import { strategyRecord } from './strategy.ts'
import { tableCreation } from './tables.ts'

const given = { kind: 'connection', wait: 'handoff', fairness: 'fifo', list: true, break: true } as const
export type RowCapabilities = CapabilitiesOf<typeof given>

export function rowAdapter(settings: Settings, host: AdapterHost): Adapter<RowCapabilities> {
  const { config, maxConnections, sessionTtlMs, fenceIdleMs, errors } = settings
  const { clock } = host
  const runner = runnerFor(settings, clock)
  const driver = rowDriver(settings, runner)
  const open = refusingPoolers((closing) => PostgresConnection.open(config, { pipeline: true, closing }))
  return sessionAdapter(
    {
      name: '@locks/postgres',
      capabilities: capabilities(given),
      strategy: 'row',
      record: strategyRecord(settings, runner),
      creation: tableCreation(settings),
      driver,
      connections: new ConnectionPool({ open, max: maxConnections, clock, errors }),
      errors,
      sessionTtlMs,
      fenceIdleMs,
      diagnose: () => diagnose(settings, clock),
      prune: (...call) => driver.prune(...call),
      close: () => runner.close(),
    },
    host,
  )
}
