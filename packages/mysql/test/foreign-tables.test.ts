import { migrate, migrationSql, prune } from '@locks/mysql'
import { createConnection } from 'mysql2/promise'
import type { RowDataPacket } from 'mysql2/promise'
import { afterAll, expect, test } from 'vitest'
import { foreignTableTests } from '../../sql/test/support/foreign-table-tests.ts'
import { open, startServer } from './support/setup.ts'

const server = await startServer()
const control = await createConnection(server.url)
afterAll(() => control.end())

async function contentOf(table: string): Promise<unknown> {
  const [tables] = await control.query<RowDataPacket[]>(
    `SELECT TABLE_NAME AS name, CREATE_TIME, TABLE_TYPE FROM information_schema.TABLES
     WHERE TABLE_SCHEMA = DATABASE() AND LEFT(TABLE_NAME, CHAR_LENGTH(?)) = ? ORDER BY 1`,
    [table, table],
  )
  const contents = []
  for (const { name } of tables) contents.push((await control.query(`SELECT * FROM ${String(name)}`))[0])
  return [tables, contents]
}

foreignTableTests({
  server,
  strategies: ['unique-key', 'row', 'named'],
  open,
  migrate,
  prune,
  run: (text) => control.query(text),
  contentOf,
  bytes: 'varbinary(64)',
  schema: 'locks',
  suffixes: ['_rows', '_holders', '_named', '_pruned', '_strategy'],
})

test('the SQL of a migration, run by hand, changes no row of another program', async () => {
  await control.query('CREATE TABLE grove_pruned (id int PRIMARY KEY, fence bigint, tree int)')
  await control.query('INSERT INTO grove_pruned VALUES (7, 12, 40)')
  const before = await contentOf('grove_pruned')
  for (const text of migrationSql({ table: 'grove' }).split(';\n')) if (text !== '') await control.query(text)
  expect(await contentOf('grove_pruned')).toEqual(before)
})
