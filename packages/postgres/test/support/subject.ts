import { postgresFrames } from '@locks/core/conformance'
import type { Subject } from '@locks/core/conformance'
import type { LocksConfig } from '@locks/core'
import { migrate } from '@locks/postgres'
import type { Library, Strategy } from '@locks/postgres'
import { createHash } from 'node:crypto'
import { Client } from 'pg'
import { startService } from '../../../../conformance/services/index.ts'

const secret = 'not-to-be-shown-p4ss'

/** Holds and waiters of a name. Rows with a fence are kept on purpose. */
const left = `SELECT 'a holder in locks' AS what FROM locks WHERE name = $1 AND attempt IS NOT NULL
UNION ALL SELECT 'a waiter' FROM locks_waiters WHERE name = $1
UNION ALL SELECT 'a connection that holds' FROM locks_holders
  WHERE name = $1 AND NOT pg_try_advisory_xact_lock_shared(key)
UNION ALL SELECT 'an advisory lock' WHERE NOT pg_try_advisory_xact_lock_shared($2)`

/** The number that stands for a name in strategy `advisory`. */
export function numberOf(lock: string): string {
  const digest = createHash('sha256').update(`@locks/postgres advisory\0public.locks\0${lock}`).digest()
  return String(digest.readBigInt64BE())
}

/** A migrated server for the suite, and what the suite may do to it. */
export async function startSubject(
  strategy: Strategy,
  library: Library = 'pg',
): Promise<{ readonly subject: Subject; readonly close: () => Promise<void> }> {
  const service = await startService('postgres', { settings: { max_connections: 400 }, needsControl: true })
  const server = service.server('postgres')
  const url = (host: string, port: number): string => `postgres://postgres:${secret}@${host}:${port}/postgres`
  const config = (host: string, port: number): LocksConfig => ({
    adapter: '@locks/postgres',
    url: url(host, port),
    strategy,
    library,
  })
  await migrate({ url: url(server.host, server.port), library })
  const subject: Subject = {
    name: library === 'pg' ? `postgres-${strategy}` : `postgres-js-${strategy}`,
    config: config(server.host, server.port),
    wire: {
      target: { host: server.host, port: server.port },
      via: ({ host, port }) => config(host, port),
      frames: postgresFrames,
    },
    server: {
      pause: () => server.pause(),
      resume: () => server.resume(),
      restart: () => server.restart({ hard: true }),
    },
    secret,
    async leftovers(lock) {
      const client = new Client({ connectionString: server.url })
      await client.connect()
      try {
        const { rows } = await client.query<{ what: string }>(left, [Buffer.from(lock), numberOf(lock)])
        return rows.map(({ what }) => what)
      } finally {
        await client.end()
      }
    },
  }
  return { subject, close: () => service.close() }
}
