import type { Locks, LocksOptions } from '@locks/core'
import type { AdapterHost } from '@locks/core/adapter'
import type { TestAdapter } from '@locks/core/conformance'
import { fromConfig, migrate } from '@locks/postgres'
import type { Library } from '@locks/postgres'
import { Client } from 'pg'
import { afterAll, beforeEach, onTestFinished } from 'vitest'
import { postgresQuery, startService } from '../../../../conformance/services/index.ts'
import type { Server, Settings } from '../../../../conformance/services/index.ts'
import { bareAdapter } from '../../../../conformance/test-support/bare-adapter.ts'
import { openClient } from '../../../../conformance/test-support/clients.ts'

export { never } from '../../../../conformance/test-support/bare-adapter.ts'
export { contended, lossOf } from '../../../../conformance/test-support/clients.ts'

export type Config = Readonly<Record<string, unknown>>

/** The library that clients by URL use in this run: the same tests run once with each. */
export const library: Library = process.env['LOCKS_TEST_LIBRARY'] === 'postgres' ? 'postgres' : 'pg'

function withLibrary(config: Config): Config {
  return 'url' in config ? { library, ...config } : config
}

/** A migrated server for a whole test file. Each test begins with tables that no strategy owns. */
export async function startServer(settings: Settings = {}): Promise<Server> {
  const service = await startService('postgres', { settings, needsControl: true })
  afterAll(() => service.close())
  const server = service.server('postgres')
  await migrate({ url: server.url, library })
  beforeEach(async () => void (await postgresQuery(server, 'DELETE FROM locks_strategy')))
  return server
}

export function open(config: Config, options: LocksOptions = {}): Locks {
  return openClient(fromConfig(withLibrary(config)), options)
}

export function bare(config: Config, host?: Partial<AdapterHost>): TestAdapter {
  return bareAdapter(fromConfig(withLibrary(config)), host)
}

/** A connection of the test, past the adapter; `options` as the server takes them: `-c name=value`. */
export async function connect(server: Server, options?: string): Promise<Client> {
  const client = new Client({ connectionString: server.url, ...(options !== undefined && { options }) })
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}
