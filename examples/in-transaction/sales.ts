import { migrate as migrateMysql } from '@locks/mysql'
import { migrate as migratePostgres } from '@locks/postgres'
import { expect } from 'vitest'
import { mariadbQuery, postgresQuery, startService } from '../../conformance/services/index.ts'
import { start } from '../test-support/program.ts'

const servers = {
  postgres: { kind: 'postgres', query: postgresQuery, migrate: migratePostgres },
  mysql: { kind: 'mariadb', query: mariadbQuery, migrate: migrateMysql },
} as const

/** Sells with one library, in two processes of four workers. Without the lock some sales would be lost. */
export async function sellWith(folder: string, library: string, turns: number): Promise<void> {
  const { kind, query, migrate } = servers[library.includes('mysql') ? 'mysql' : 'postgres']
  await using service = await startService(kind)
  const server = service.server(kind)
  await migrate({ url: server.url })
  await query(server, 'CREATE TABLE stock (id int PRIMARY KEY, amount int NOT NULL)')
  await query(server, `INSERT INTO stock VALUES (1, ${turns})`)
  const args = [library, server.url, String(turns / 2), '4']
  const shops = [1, 2].map(() => start(`${folder}/run.mjs`, { args }))
  for (const { ended } of shops) expect(await ended).toMatchObject({ exitCode: 0, output: '' })
  expect(String(await query(server, 'SELECT amount FROM stock'))).toBe('0')
}

/** The one error of a sale without the tables of the lock: libraries hide the code of the server in their own errors. */
export async function refusedBy(folder: string, library: string): Promise<string> {
  const { kind } = servers[library.includes('mysql') ? 'mysql' : 'postgres']
  await using service = await startService(kind)
  const { ended } = start(`${folder}/run.mjs`, { args: [library, service.server(kind).url, '1', '1'] })
  const { exitCode, output } = await ended
  expect(exitCode).toBe(1)
  return output
}
