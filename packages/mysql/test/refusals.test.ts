import { fromConfig } from '@locks/mysql'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Socket } from 'node:net'
import { createPool } from 'mysql2/promise'
import { describe, expect, onTestFinished, test } from 'vitest'
import { mariadbQuery } from '../../../conformance/services/index.ts'
import { scaled } from '../../../conformance/services/timing.ts'
import { expectOneBound, expectRefusedAtOnce } from '../../../conformance/test-support/refusals.ts'
import { open, startServer } from './support/setup.ts'

const server = await startServer()
const { url, host, port } = server

/** An error as the first packet of the server. */
function packetOf(number: number, message: string): Buffer {
  const body = Buffer.concat([
    Buffer.from([0xff, number & 0xff, number >> 8]),
    Buffer.from(`#HY000${message}`),
  ])
  return Buffer.concat([Buffer.from([body.length, 0, 0, 0]), body])
}

/** The port of a server in front of the real one. */
async function listening(accept: (client: Socket) => unknown): Promise<number | undefined> {
  const front = createServer((client) => {
    client.on('error', () => undefined)
    accept(client)
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void front.close())
  await once(front, 'listening')
  const address = front.address()
  return typeof address === 'object' ? address?.port : undefined
}

describe.each(['unique-key', 'row', 'named'])('%s', (strategy) => {
  const refused = (to: string, saying: RegExp): Promise<void> =>
    expectRefusedAtOnce(fromConfig({ url: to, strategy }), saying)

  test('a wrong password, an unknown user, a missing database and right are refused at once', async () => {
    await mariadbQuery(server, "CREATE USER IF NOT EXISTS alice@'%' IDENTIFIED BY 'right'")
    await mariadbQuery(server, "CREATE USER IF NOT EXISTS reader@'%' IDENTIFIED BY 'right'")
    await mariadbQuery(server, "GRANT SELECT ON locks.locks_strategy TO reader@'%'")
    const at = `${host}:${port}`
    await refused(
      `mysql://alice:wrong@${at}/locks`,
      /refuses the user or the password.*ER_ACCESS_DENIED_ERROR/,
    )
    await refused(`mysql://nobody:x@${at}/locks`, /refuses the user or the password/)
    await refused(`mysql://alice:right@${at}/locks`, /may not use this database: .*; grant/)
    await refused(`mysql://reader:right@${at}/locks`, /may not use the tables: .*; grant/)
    await refused(url.replace(/\/[^/]*$/, '/nowhere'), /database is missing/)
  })

  test('a pool that the program has ended is refused at once', async () => {
    const pool = createPool(url)
    await pool.end()
    await expectRefusedAtOnce(fromConfig({ pool, strategy }), /pool was ended.*; give a pool that is open/)
  })

  test('a server without TLS is refused at once where it is asked for', async () => {
    await refused(`${url}?ssl=true`, /server does not support TLS/)
  })

  test.each<readonly [number, string, RegExp]>([
    [1251, 'Client does not support authentication protocol', /authentication method/],
    [1524, "Plugin 'absent' is not loaded", /authentication method/],
    [3159, 'Connections using insecure transport are prohibited', /server asks for TLS.*; add \?ssl=true/],
    [1820, 'You must reset your password', /password has expired/],
  ])('error %i when connecting is refused at once', async (number, message, saying) => {
    const at = await listening((client) => client.end(packetOf(number, message)))
    await refused(`mysql://alice:right@127.0.0.1:${at}/locks`, saying)
  })

  test('a host that is refused while DNS fails gets its lock afterwards', async () => {
    let refusals = 0
    const at = await listening((client) => {
      if ((refusals += 1) <= 5) return client.end(packetOf(1130, "Host '10.0.0.9' is not allowed to connect"))
      const behind = connect(port, host)
      behind.on('error', () => undefined)
      return client.pipe(behind).pipe(client)
    })
    const there = new URL(url)
    there.host = `127.0.0.1:${at}`
    const locks = open({ url: there.href, strategy }, { storeTimeoutMs: scaled(20_000) })
    await locks.with('known again', { waitMs: scaled(20_000) }, () => undefined)
    expect(refusals).toBeGreaterThan(5)
  })

  test('a missing table is refused at once', async () => {
    const factory = fromConfig({ url, strategy, table: 'nowhere', migrate: false })
    await expectRefusedAtOnce(factory, /locks migrate/)
  })

  test('calls to a killed server fail after storeTimeoutMs, and work again once it is back', async () => {
    await expectOneBound(fromConfig({ url, strategy }), [server])
  })
})
