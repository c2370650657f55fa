import { migrate, prune } from '@locks/postgres'
import { Client } from 'pg'
import { afterAll, expect, test } from 'vitest'
import { foreignTableTests } from '../../sql/test/support/foreign-table-tests.ts'
import { open, startServer } from './support/setup.ts'

const server = await startServer()
const { url } = server
const control = new Client({ connectionString: url })
await control.connect()
afterAll(() => control.end())

async function contentOf(table: string): Promise<unknown> {
  const { rows: classes } = await control.query<{ name: string; kind: string }>(
    `SELECT relname AS name, relkind AS kind, relfilenode FROM pg_class WHERE starts_with(relname, $1) ORDER BY 1`,
    [table],
  )
  const functions = await control.query(
    'SELECT oid, proname, prosrc FROM pg_proc WHERE starts_with(proname, $1) ORDER BY 1',
    [table],
  )
  const tables = classes.filter(({ kind }) => kind === 'r')
  const contents = tables.map(({ name }) =>
    control.query<Record<string, unknown>>(`SELECT xmin, ctid, * FROM ${name} ORDER BY 2`),
  )
  return [classes, functions.rows, (await Promise.all(contents)).map(({ rows }) => rows)]
}

foreignTableTests({
  server,
  strategies: ['unique-key', 'row', 'advisory'],
  open,
  migrate,
  prune,
  run: (text) => control.query(text),
  contentOf,
  bytes: 'bytea',
  schema: 'public',
  suffixes: ['_waiters', '_rows', '_holders', '_strategy'],
})

test('a function of another program is not replaced', async () => {
  await control.query("CREATE FUNCTION called_prune_waiters() RETURNS void LANGUAGE sql AS 'SELECT'")
  const before = await contentOf('called')
  const message: unknown = expect.stringContaining('function "public"."called_prune_waiters" exists')
  await expect(migrate({ url, table: 'called' })).rejects.toMatchObject({ message })
  await expect(open({ url, table: 'called' }).lock('a').acquire()).rejects.toMatchObject({ message })
  expect(await contentOf('called')).toEqual(before)
})

test('a table of fenced resources that is not ours is named', async () => {
  await control.query('CREATE SCHEMA plant')
  await control.query('CREATE TABLE plant.fenced_resources (resource bytea, fence bigint, water int)')
  const message: unknown = expect.stringContaining('table "plant".fenced_resources exists')
  await expect(migrate({ url, schema: 'plant' })).rejects.toMatchObject({ message })
  const { rows } = await control.query("SELECT FROM pg_class WHERE relnamespace = 'plant'::regnamespace")
  expect(rows).toHaveLength(1)
})

test("the array type of a table is in nobody's way", async () => {
  await migrate({ url, table: 'listed' })
  await migrate({ url, table: '_listed' })
  await open({ url, table: '_listed' }).with('a', () => undefined)
})
