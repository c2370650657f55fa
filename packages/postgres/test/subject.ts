import type { Subject } from '@locks/core/conformance'
import type { LocksConfig } from '@locks/core'
import { migrate } from '@locks/postgres'
import type { Strategy } from '@locks/postgres'
import { startService } from '../../../conformance/services/index.ts'
import { scaled } from '../../../conformance/services/timing.ts'

const secret = 'not-to-be-shown-p4ss'

/** A server of its own, with tables, and what the suite may do to it. */
export async function startSubject(
  strategy: Strategy,
): Promise<{ readonly subject: Subject; readonly close: () => Promise<void> }> {
  const service = await startService('postgres', { settings: { max_connections: 400 }, needsControl: true })
  const server = service.server('postgres')
  const url = (host: string, port: number): string => `postgres://postgres:${secret}@${host}:${port}/postgres`
  const config = (host: string, port: number): LocksConfig => ({
    adapter: '@locks/postgres',
    url: url(host, port),
    strategy,
    ...(strategy === 'row' && { sessionTtlMs: scaled(1_000) }),
  })
  await migrate({ url: url(server.host, server.port) })
  const subject: Subject = {
    name: `postgres-${strategy}`,
    config: config(server.host, server.port),
    wire: { target: { host: server.host, port: server.port }, via: ({ host, port }) => config(host, port) },
    server: {
      pause: () => server.pause(),
      resume: () => server.resume(),
      restart: () => server.restart({ hard: true }),
    },
    secret,
  }
  return { subject, close: () => service.close() }
}
