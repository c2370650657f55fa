import type { Clock, Finding } from '@locks/core/adapter'
import { errors } from './errors.ts'
import { findingsOf } from './findings.ts'
import type { Facts } from './findings.ts'
import { PostgresConnection } from './connection.ts'
import type { Settings } from './options.ts'
import { poolingOf } from './pooler.ts'
import { factStatements, strategyStatements } from './sql.ts'

const read = [
  'default_transaction_isolation',
  'default_transaction_read_only',
  'fsync',
  'full_page_writes',
  'idle_session_timeout',
  'max_connections',
  'server_version',
  'server_version_num',
  'statement_timeout',
  'superuser_reserved_connections',
  'synchronous_commit',
  'synchronous_standby_names',
  'tcp_keepalives_idle',
  'tcp_keepalives_interval',
  'tcp_keepalives_count',
  'tcp_user_timeout',
  'transaction_timeout',
]

/** Opens connections as the adapter does, so that it reports on the same settings. */
export async function diagnose(settings: Settings, clock: Clock): Promise<readonly Finding[]> {
  const sql = factStatements(settings.place, settings.strategy)
  const open = (): Promise<PostgresConnection> => PostgresConnection.open(settings.config, { named: false })
  const connection = await open().catch(inLockError)
  try {
    return findingsOf(await connection.promptly(() => factsOf(connection)).catch(inLockError), settings)
  } finally {
    await connection.close()
  }

  async function factsOf(on: PostgresConnection): Promise<Facts> {
    const values = new Map<string, string>()
    for (const [name, value] of await on.query(sql.settings, [read])) values.set(name ?? '', value ?? '')
    const sentAt = clock.now()
    const [[inRecovery, connections] = []] = await on.query(sql.server)
    const roundTripMs = clock.now() - sentAt
    const missing = await on.query(sql.missing)
    const forbidden = await on.query(sql.forbidden)
    const readable = missing.length === 0 && forbidden.length === 0
    const [[, owner] = []] = readable ? await on.query(strategyStatements(settings.place).read, ['']) : []
    const [[kept, oldestMs] = []] = readable ? await on.query(sql.leftovers) : []
    return {
      settings: values,
      roundTripMs,
      pooling: await poolingOf(open),
      inRecovery: inRecovery === 't',
      connections: Number(connections),
      missing: missing.map(([name]) => name ?? ''),
      forbidden: forbidden.map(([name]) => name ?? ''),
      owner: owner ?? undefined,
      leftovers: readable ? { names: Number(kept), oldestMs: Number(oldestMs ?? 0) } : undefined,
    }
  }
}

function inLockError(error: unknown): never {
  throw errors.toLockError(error)
}
