import type { LocksConfig } from '@locks/core'
import type { Subject } from '@locks/core/conformance'
import { migrate } from '@locks/mysql'
import type { Strategy } from '@locks/mysql'
import { mariadbQuery, startService } from '../../../../conformance/services/index.ts'
import { scaled } from '../../../../conformance/services/timing.ts'

/** The server counts silence in whole seconds. */
const ttlMs = 2_000
const secret = 'not-to-be-shown-p4ss'

/** A migrated server for the suite, and what the suite may do to it. */
export async function startSubject(
  strategy: Strategy,
): Promise<{ readonly subject: Subject; readonly close: () => Promise<void> }> {
  const service = await startService('mariadb', { settings: { 'max-connections': 400 }, needsControl: true })
  const server = service.server('mariadb')
  await mariadbQuery(server, `CREATE USER IF NOT EXISTS suite@'%' IDENTIFIED BY '${secret}'`)
  await mariadbQuery(server, "GRANT ALL PRIVILEGES ON *.* TO suite@'%'")
  const url = (host: string, port: number): string => `mysql://suite:${secret}@${host}:${port}/locks`
  const config = (host: string, port: number): LocksConfig => ({
    adapter: '@locks/mysql',
    url: url(host, port),
    strategy,
    ...(strategy !== 'unique-key' && { sessionTtlMs: scaled(15_000) }),
  })
  await migrate({ url: url(server.host, server.port) })
  const subject: Subject = {
    name: `mysql-${strategy}`,
    config: config(server.host, server.port),
    wire: { target: { host: server.host, port: server.port }, via: ({ host, port }) => config(host, port) },
    server: {
      pause: () => server.pause(),
      resume: () => server.resume(),
      restart: () => server.restart({ hard: true }),
    },
    secret,
    ttlMs,
    async leftovers(lock) {
      const name = `X'${Buffer.from(lock).toString('hex')}'`
      const alive = `name = ${name} AND IS_USED_LOCK(hold) IS NOT NULL`
      const left = [
        `SELECT 'a hold' FROM locks WHERE name = ${name} AND attempt IS NOT NULL`,
        `SELECT 'the key of a row' FROM locks_holders WHERE ${alive}`,
        `SELECT 'the key of a named lock' FROM locks_named WHERE ${alive}`,
      ]
      const found = await mariadbQuery(server, left.join(' UNION ALL '))
      return found === null ? [] : [found]
    },
  }
  return { subject, close: () => service.close() }
}
