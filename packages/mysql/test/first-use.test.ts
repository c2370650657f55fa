import { migrationSql } from '@locks/mysql'
import { once } from 'node:events'
import { connect as connectTo, createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { mariadbQuery } from '../../../conformance/services/index.ts'
import { eventually } from '../../../conformance/services/timing.ts'
import { firstUseTests } from '../../sql/test/support/first-use-tests.ts'
import { bare, cell, connect, open, startServer } from './support/setup.ts'

const server = await startServer({ 'max-connections': 200 })

firstUseTests({
  adapter: '@locks/mysql',
  server,
  strategies: ['unique-key', 'row', 'named'],
  open,
  async run(text) {
    const connection = await connect(server)
    for (const one of text.split(';\n').filter((statement) => statement.trim() !== ''))
      await connection.query(one)
  },
  async tablesLike(table) {
    const text = 'SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME LIKE ?'
    return Number(await cell(await connect(server), text, [`${table}%`]))
  },
  async powerless() {
    await mariadbQuery(server, "CREATE USER IF NOT EXISTS powerless@'%' IDENTIFIED BY 'right'")
    await mariadbQuery(server, "GRANT SELECT, INSERT, UPDATE, DELETE ON locks.* TO powerless@'%'")
    return `mysql://powerless:right@${server.host}:${server.port}/locks`
  },
})

test('tables of which some were created before a crash are completed, by several clients at once', async () => {
  const control = await connect(server)
  for (const [made, strategy] of [
    [1, 'unique-key'],
    [4, 'row'],
    [6, 'named'],
  ] as const) {
    const table = `half_${made}`
    for (const text of migrationSql({ table }).split(';\n').slice(0, made)) await control.query(text)
    const use = open({ url: server.url, strategy, table })
    const other = open({ url: server.url, strategy, table })
    const fences = await Promise.all([use, other].map((one) => one.with('a', ({ fence }) => fence)))
    expect(new Set(fences)).toHaveProperty('size', 2)
  }
})

test('a client that is closed while it waits for a migration creates nothing afterwards', async () => {
  const control = await connect(server)
  await control.query("SELECT GET_LOCK('@locks/mysql migrate', 0)")
  const { adapter, request } = bare({ url: server.url, table: 'closed' })
  const attempt = Promise.allSettled([adapter.attempt(request('a'))])
  const waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'"
  await eventually('the acquire waits', async () => (await cell(control, waits)) === '1')
  await adapter.close()
  await control.query("DO RELEASE_LOCK('@locks/mysql migrate')")
  expect(await attempt).toMatchObject([{ status: 'rejected', reason: { code: 'LOCK_UNAVAILABLE' } }])
  const tables = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'closed'"
  // A session that creates tables would hold it meanwhile.
  await control.query("SELECT GET_LOCK('@locks/mysql migrate', 10)")
  expect(await cell(control, tables)).toBe('0')
})

test('a schema that is missing is created where the server says so, as MySQL 8 does, and not the table', async () => {
  const [asMariadb, asMysql] = ['ff7a04233432533032', 'ff1904233432303030'].map((hex) =>
    Buffer.from(hex, 'hex'),
  )
  const proxy = createServer((client) => {
    const behind = connectTo(server.port, server.host)
    behind.on('error', () => undefined).on('close', () => client.destroy())
    client.on('error', () => undefined).on('close', () => behind.destroy())
    client.pipe(behind)
    behind.on('data', (bytes) => {
      const at = bytes.indexOf(asMariadb ?? '')
      if (at >= 0) asMysql?.copy(bytes, at)
      client.write(bytes)
    })
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void proxy.close())
  await once(proxy, 'listening')
  const address = proxy.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const url = server.url.replace(String(server.port), String(port))
  await open({ url, schema: 'unheard_of' }).with('a', ({ fence }) => expect(fence).toBe(1n))
})
