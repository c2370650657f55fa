import { capabilities } from '@locks/core/adapter'
import type { Adapter, AdapterHost, CapabilitiesOf } from '@locks/core/adapter'
import { ConnectionPool, onAnyConnection, sessionAdapter as sqlSessionAdapter } from '@locks/sql'
import { MysqlConnection } from './connection.ts'
import { diagnose } from './diagnose.ts'
import type { Settings } from './options.ts'
import { pruneCounters, pruneRows } from './prune.ts'
import { runnerFor, setUp } from './runner.ts'
import { FOREVER_S, sessionDriver } from './session-driver.ts'
import type { SessionStrategy } from './session-driver.ts'
import { strategyRecord } from './strategy.ts'
import { tableCreation } from './tables.ts'

// `fairness` is none: MySQL 8 prefers the session that keeps most others waiting.
const given = { kind: 'connection', wait: 'handoff', list: true, break: true, minTtlMs: 1_000 } as const
export type SessionCapabilities = CapabilitiesOf<typeof given>

/** Strategies `row` and `named`: a lock is held by a connection, and by nothing else. */
export function sessionAdapter(
  settings: Settings,
  strategy: SessionStrategy,
  host: AdapterHost,
): Adapter<SessionCapabilities> {
  const { config, maxConnections, sessionTtlMs, fenceIdleMs, errors } = settings
  const { clock } = host
  const runner = runnerFor(settings, clock)
  const open = (closing: AbortSignal): Promise<MysqlConnection> =>
    MysqlConnection.open(config, setUp(FOREVER_S), closing)
  const connections = new ConnectionPool({ open, max: maxConnections, clock, errors })
  return sqlSessionAdapter(
    {
      name: '@locks/mysql',
      capabilities: capabilities(given),
      strategy,
      record: strategyRecord(settings, runner),
      creation: tableCreation(settings),
      driver: sessionDriver(settings, strategy, runner),
      connections,
      errors,
      sessionTtlMs,
      fenceIdleMs,
      diagnose: () => diagnose(settings, runner, clock),

      async prune(idleMs, names) {
        const counters = await pruneCounters(runner, settings, strategy, idleMs, names)
        if (strategy === 'named' || connections.full) return counters
        const more = await onAnyConnection(connections, clock, (connection) =>
          pruneRows((text, values) => connection.query(text, values), settings, clock, names),
        )
        return { pruned: counters.pruned, more: counters.more || more }
      },

      close: () => runner.close(),
    },
    host,
  )
}
