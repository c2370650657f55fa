import { assertInTime } from '@locks/core/conformance'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { PostgresConnection } from '../src/connection.ts'
import { placesOf } from '../src/drivers/postgres-js-places.ts'
import type { Library } from '../src/index.ts'
import { plain } from '../src/sql.ts'
import { mute, pass, proxyTo } from './support/proxy.ts'
import type { Join } from './support/proxy.ts'
import { connect, startServer } from './support/setup.ts'

const server = await startServer()
const libraries: readonly Library[] = ['pg', 'postgres']

/** What a URL leads to by the first row of a statement. */
async function found(library: Library, url: string, text: string): Promise<unknown> {
  const connection = await PostgresConnection.open({ library, url })
  try {
    return (await connection.query(plain(text)))[0]?.[0]
  } finally {
    await connection.close()
  }
}

function addressesOf(url: string): unknown[] {
  return placesOf({ library: 'postgres', url }).map(({ settings }) => {
    const { host, port, path: socket, database }: Record<string, unknown> = { ...settings }
    return { at: socket ?? `${String(host)}:${String(port)}`, database }
  })
}

test.each([
  'postgres://me@[::1]:6000/app',
  'postgres://me@[::1]/app',
  'postgres://me@elsewhere:6000/app?host=::1',
  'postgres://me@elsewhere:6000/app?host=10.0.0.1',
  'postgres://me@%2Fvar%2Frun%2Fpostgresql/app',
  'postgres://me@%2Fvar%2Frun%2Fpostgresql:6000/app',
  'postgres:///app?host=/var/run/postgresql',
  'postgres:///app',
  'postgres://me@host/a%20b%25%C3%BC',
  'postgres://me@host/a%2Fb',
])('%s leads to the same place with both libraries', (url) => {
  const { host, port, database } = new Client(url)
  const at = host.startsWith('/') ? `${host}/.s.PGSQL.${port}` : `${host}:${port}`
  expect(addressesOf(url)).toEqual([{ at, database }])
})

test.each([
  ['postgres://me@a,b:6000/app', ['a:5432', 'b:6000']],
  ['postgres://me@x:6000/app?host=a,b', ['a:6000', 'b:6000']],
  ['postgres://me@x/app?host=a:1,[::1]:2,/tmp', ['a:1', '::1:2', '/tmp/.s.PGSQL.5432']],
])('%s names several servers, each with its port', (url, expected) => {
  expect(addressesOf(url)).toEqual(expected.map((at) => ({ at, database: 'app' })))
})

test.each(libraries)('%s: a URL leads to a socket, and to a database with an odd name', async (library) => {
  const control = await connect(server)
  const directory = await mkdtemp(path.join(tmpdir(), 'locks-socket-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  await proxyTo(server, pass, { path: path.join(directory, '.s.PGSQL.6000') })
  const name = `ü %2 ${library}`
  await control.query(`CREATE DATABASE "${name}"`)
  const rest = `${encodeURIComponent(name)}?application_name=socket`
  for (const url of [
    `postgres://postgres@${encodeURIComponent(directory)}:6000/${rest}`,
    `postgres://postgres@127.0.0.1:6000/${rest}&host=${directory}`,
  ])
    expect(await found(library, url, 'SELECT current_database()')).toBe(name)
})

test('postgres: two servers that do not answer leave time for the third', async () => {
  const [first, second] = [await proxyTo(server, mute), await proxyTo(server, mute)]
  const hosts = `127.0.0.1:${first.port},127.0.0.1:${second.port},127.0.0.1`
  const startedAt = performance.now()
  expect(await found('postgres', `${server.url}?host=${hosts}`, 'SELECT 1')).toBe('1')
  // As long as core waits for a store by default.
  await assertInTime('the connection', 5_000, performance.now() - startedAt)
})

/** A server before version 14 does not report whether it is a standby, so the library asks. */
const unreported: Join = (client, behind) => {
  client.pipe(behind)
  behind.on('data', (bytes) => {
    const start = bytes.indexOf('in_hot_standby') - 5
    if (start < 0) return client.write(bytes)
    const end = start + 1 + bytes.readUInt32BE(start + 1)
    return client.write(Buffer.concat([bytes.subarray(0, start), bytes.subarray(end)]))
  })
}

test.each(['primary', 'read-write', 'prefer-standby'])(
  'postgres: target_session_attrs=%s connects to a primary, also of an earlier version',
  async (attributes) => {
    for (const join of [pass, unreported]) {
      const { port } = await proxyTo(server, join)
      const url = `postgres://postgres@127.0.0.1:${port}/postgres?target_session_attrs=${attributes}`
      expect(await found('postgres', url, 'SELECT 1')).toBe('1')
    }
  },
)

test.each(['standby', 'read-only'])(
  'postgres: target_session_attrs=%s does not connect to a primary',
  async (attributes) => {
    for (const join of [pass, unreported]) {
      const { port } = await proxyTo(server, join)
      const url = `postgres://postgres@127.0.0.1:${port}/postgres?target_session_attrs=${attributes}`
      await expect(found('postgres', url, 'SELECT 1')).rejects.toThrow()
    }
  },
)
