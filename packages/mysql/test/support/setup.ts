import type { Locks, LocksOptions } from '@locks/core'
import type { AdapterHost } from '@locks/core/adapter'
import type { TestAdapter } from '@locks/core/conformance'
import { fromConfig, migrate } from '@locks/mysql'
import { createConnection } from 'mysql2/promise'
import type { Connection, RowDataPacket } from 'mysql2/promise'
import { afterAll, beforeEach, onTestFinished } from 'vitest'
import { mariadbQuery, startService } from '../../../../conformance/services/index.ts'
import type { Server, Settings } from '../../../../conformance/services/index.ts'
import { bareAdapter } from '../../../../conformance/test-support/bare-adapter.ts'
import { openClient } from '../../../../conformance/test-support/clients.ts'

export { never } from '../../../../conformance/test-support/bare-adapter.ts'
export { contended, lossOf } from '../../../../conformance/test-support/clients.ts'

export type Config = Readonly<Record<string, unknown>>

/** Settings found on real servers: no strict mode, a short idle limit, a collation that considers much equal. */
export const commonDefaults: Settings = {
  'max-connections': 200,
  'sql-mode': '',
  'wait-timeout': 3,
  'collation-server': 'utf8mb4_general_ci',
}

/** A migrated server for a whole test file. Each test begins with tables that no strategy owns. */
export async function startServer(settings: Settings = {}): Promise<Server> {
  const service = await startService('mariadb', { settings, needsControl: true })
  afterAll(() => service.close())
  const server = service.server('mariadb')
  await migrate({ url: server.url })
  beforeEach(async () => void (await mariadbQuery(server, 'DELETE FROM locks_strategy')))
  return server
}

export function open(config: Config, options: LocksOptions = {}): Locks {
  return openClient(fromConfig(config), options)
}

/** The bare adapter, and the attempts whose hold it reported as lost. */
export function bare(config: Config): TestAdapter & { readonly lost: readonly string[] } {
  const lost: string[] = []
  const report: AdapterHost['report'] = (state, attemptId) =>
    void (state === 'lost' && lost.push(String(attemptId)))
  return { ...bareAdapter(fromConfig(config), { report }), lost }
}

/** A connection of the test, past the adapter. */
export async function connect(server: Server): Promise<Connection> {
  const connection = await createConnection(server.url)
  // Some tests give the server a short idle limit.
  await connection.query('SET SESSION wait_timeout = 3600')
  onTestFinished(() => connection.end())
  return connection
}

export async function cell(
  connection: Connection,
  text: string,
  values: (string | Buffer)[] = [],
): Promise<string> {
  const [rows] = await connection.execute<RowDataPacket[][]>({ sql: text, rowsAsArray: true }, values)
  const [first]: unknown[] = rows[0] ?? []
  return typeof first === 'string' || typeof first === 'number' ? String(first) : ''
}
