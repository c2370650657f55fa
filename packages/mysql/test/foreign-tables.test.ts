import { migrate, prune } from '@locks/mysql'
import { createConnection } from 'mysql2/promise'
import type { RowDataPacket } from 'mysql2/promise'
import { afterAll } from 'vitest'
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
