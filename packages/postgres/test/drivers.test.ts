import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../../conformance/services/timing.ts'
import { PostgresConnection } from '../src/connection.ts'
import type { OpenOptions } from '../src/connection.ts'
import type { Library } from '../src/index.ts'
import { plain, statement } from '../src/sql.ts'
import { proxyTo } from './support/proxy.ts'
import { connect, startServer } from './support/setup.ts'

const server = await startServer()
const libraries: readonly Library[] = ['pg', 'postgres']

async function opened(library: Library, options?: OpenOptions): Promise<PostgresConnection> {
  const connection = await PostgresConnection.open({ library, url: server.url }, options)
  onTestFinished(() => connection.close())
  return connection
}

const echo = `SELECT $1::bytea, $2::text, $3::int, $4::bigint, $5::boolean, $6::bytea[], $7::text[], $8::int[],
  $2::json IS NULL, now() IS NOT NULL, $9::jsonb, 1.5::float8`

const values = fc.tuple(
  fc.uint8Array().map((bytes) => Buffer.from(bytes)),
  fc.constant(null),
  fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
  fc.boolean(),
  fc.array(fc.uint8Array().map((bytes) => Buffer.from(bytes))),
  fc.array(fc.string({ unit: 'binary' }).filter((text) => !/[\0\p{Surrogate}]/u.test(text))),
  fc.array(fc.integer({ min: 0, max: 1_000 })),
  fc.json(),
)

test.each([true, false])(
  'values go out and come back the same through both libraries (prepared: %s)',
  async (named) => {
    const [pg, postgres] = [await opened('pg', { named }), await opened('postgres', { named })]
    await fc.assert(
      fc.asyncProperty(values, async (given) => {
        const [row] = await pg.query(statement(echo), given)
        expect(await postgres.query(statement(echo), given)).toEqual([row])
        expect(row?.[0]).toBe(`\\x${given[0].toString('hex')}`)
      }),
      { numRuns: 100 },
    )
  },
)

test.each(libraries)(
  '%s: statements under way and those behind them fail when the connection ends, and none is opened',
  async (library) => {
    const control = await connect(server)
    const connection = await opened(library, { pipeline: true })
    let ends = 0
    connection.onEnd(() => void (ends += 1))
    const [[pid] = []] = await connection.query(plain('SELECT pg_backend_pid()'))
    // The later ones are not sent yet: a statement with parameters is described first.
    const outcomes = [1, 2, 3, 4].map((n) => connection.query(statement(`SELECT pg_sleep($1), ${n}`), [60]))
    const all = Promise.allSettled(outcomes)
    const asleep = "SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'"
    await eventually('it sleeps', async () => (await control.query(asleep, [pid])).rowCount === 1)
    const others = 'SELECT count(*)::int AS n FROM pg_stat_activity WHERE pid <> $1'
    const count = async (): Promise<unknown> => (await control.query(others, [pid])).rows[0]
    const before = await count()
    await control.query('SELECT pg_terminate_backend($1)', [pid])
    for (const { status } of await all) expect(status).toBe('rejected')
    await expect(connection.query(plain('SELECT 1'))).rejects.toThrow()
    expect([connection.ended, ends]).toEqual([true, 1])
    expect(await count()).toEqual(before)
  },
)

test.each(libraries)('%s: an idle connection that the server ends is known at once', async (library) => {
  const control = await connect(server)
  const connection = await opened(library)
  const over = new Promise<void>((resolve) => connection.onEnd(resolve))
  await control.query('SELECT pg_terminate_backend($1)', [connection.announcedPid])
  await over
  expect(connection.ended).toBe(true)
})

test.each(libraries)(
  '%s: a refusal by the server has its code, and the connection goes on',
  async (library) => {
    const connection = await opened(library)
    await expect(connection.query(plain('SELECT 1 / 0'))).rejects.toMatchObject({ code: '22012' })
    await expect(connection.query(statement('SELECT $1::int'), ['x'])).rejects.toMatchObject({
      code: '22P02',
    })
    await expect(connection.query(statement('SELECT FROM missing WHERE $1'), [true])).rejects.toMatchObject({
      code: '42P01',
    })
    expect(await connection.query(plain('SELECT 1, NULL'))).toEqual([['1', null]])
  },
)

test.each(libraries)(
  '%s: rows of a statement that failed are not part of the next reply',
  async (library) => {
    const connection = await opened(library)
    const failing = plain('SELECT 1 / (3 - n) FROM generate_series(1, 3) AS n')
    await expect(connection.query(failing)).rejects.toMatchObject({ code: '22012' })
    expect(await connection.query(plain('SELECT 1'))).toEqual([['1']])
    await expect(connection.query(failing)).rejects.toMatchObject({ code: '22012' })
    expect(await connection.ask(statement('SELECT $1::text, 2'))).toEqual(['2'])
  },
)

test('pg: a message that belongs to no statement ends the connection, and its socket is closed', async () => {
  const proxy = await proxyTo(server)
  const url = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`
  const connection = await PostgresConnection.open({ library: 'pg', url })
  const over = new Promise<void>((resolve) => connection.onEnd(resolve))
  for (const client of proxy.clients) client.write(Buffer.from('C\0\0\0\rSELECT 1\0'))
  await over
  await connection.close()
  await eventually('the socket is closed', () => Promise.resolve(proxy.clients.size === 0))
})

test.each(libraries)('%s: a connection whose opening is aborted is not opened', async (library) => {
  const closing = new AbortController()
  const opening = PostgresConnection.open(
    { library, url: `${server.url}?application_name=aborted` },
    { closing: closing.signal },
  )
  setImmediate(() => closing.abort())
  await expect(opening).rejects.toThrow()
  const control = await connect(server)
  const left = "SELECT FROM pg_stat_activity WHERE application_name = 'aborted'"
  await eventually('it is gone', async () => (await control.query(left)).rowCount === 0)
})
