import { fromConfig, migrate } from '@locks/postgres'
import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect as connectTo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import postgresJs from 'postgres'
import { afterAll, expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { expectRefusedAtOnce } from '../../../conformance/test-support/refusals.ts'
import { proxyTo } from './support/proxy.ts'
import { connect, contended, lossOf, open, startServer } from './support/setup.ts'

const directory = mkdtempSync(join(tmpdir(), 'locks-tls-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))
const [keyFile, certFile] = [join(directory, 'key.pem'), join(directory, 'certificate.pem')]
const selfSigned = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost']
execFileSync('openssl', [...selfSigned, '-keyout', keyFile, '-out', certFile], { stdio: 'ignore' })
const [key, cert] = [readFileSync(keyFile), readFileSync(certFile)]

const server = await startServer()

/** Speaks TLS with clients, as a server does that has a certificate. */
const front = createServer((client) => {
  client.on('error', () => undefined)
  client.once('data', () => {
    client.write('S')
    const secure = new TLSSocket(client, { isServer: true, key, cert })
    const behind = connectTo(server.port, server.host)
    secure.on('error', () => undefined).on('close', () => behind.destroy())
    behind.on('error', () => undefined).on('close', () => secure.destroy())
    secure.pipe(behind)
    behind.pipe(secure)
  })
}).listen(0, '127.0.0.1')
await once(front, 'listening')
afterAll(() => void front.close())
const address = front.address()
const port = typeof address === 'object' ? address?.port : undefined

/** Without a check of the certificate. */
const unchecked = { pg: 'no-verify', postgres: 'require' } as const

const urlOf = (library: 'pg' | 'postgres', sslmode: string): string =>
  `postgres://postgres@127.0.0.1:${port}/postgres?library=${library}&sslmode=${sslmode}`

const both = ['pg', 'postgres'] as const

test.each(both)(
  '%s: a hold over TLS that the server ends is lost at once, and the waiter gets it',
  async (library) => {
    const control = await connect(server)
    const config = {
      url: urlOf(library, unchecked[library]),
      library,
      strategy: 'row',
      table: `tls_${library}`,
    }
    await migrate({ url: server.url, table: config.table })
    const [holder, waiter] = [open(config), open(config)]
    const lease = await holder.lock('a').acquire()
    const lost = lossOf(lease)
    const waits = contended(waiter, 'a')
    const turn = waiter.lock('a').acquire({ waitMs: scaled(20_000) })
    await waits
    await control.query(`SELECT pg_terminate_backend(pid) FROM ${config.table}_holders WHERE name = 'a'`)
    await lost
    expect((await turn).fence).toBeGreaterThan(lease.fence)
  },
)

test.each(both)('%s: a certificate that nobody signed is refused where it is checked', async (library) => {
  const url = urlOf(library, 'verify-full')
  await expectRefusedAtOnce(
    fromConfig({ url, library }),
    /certificate of the server is not trusted.*(SELF_SIGNED|self-signed).*; give/,
  )
})

test('postgres: a refusal is final only if every server gives one', async () => {
  const down = await proxyTo(server, (client) => void client.destroy())
  const urlTo = (...ports: unknown[]): string =>
    `postgres://postgres@host/postgres?host=${ports.map((at) => `127.0.0.1:${String(at)}`).join()}&sslmode=verify-full`
  for (const ports of [
    [down.port, port],
    [port, down.port],
  ]) {
    const locks = open({ url: urlTo(...ports), library: 'postgres' }, { storeTimeoutMs: scaled(500) })
    await expect(locks.lock('a').tryAcquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  }
  await expectRefusedAtOnce(fromConfig({ url: urlTo(port, port), library: 'postgres' }), /certificate/)
})

test('postgres: a sql whose ssl cannot be used is refused', async () => {
  const sql = postgresJs({
    host: '127.0.0.1',
    port: port ?? 0,
    user: 'postgres',
    ssl: { key: 'no', cert: 'no' },
  })
  const locks = open({ pool: sql })
  await expect(locks.lock('a').tryAcquire()).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message: expect.stringContaining('ssl of your sql') as unknown,
  })
})

test.each(both)('%s: an idle connection over TLS does not keep a program alive', async (library) => {
  const program = `
    import { createLocks } from '@locks/core'
    import { postgres } from '@locks/postgres'
    const locks = createLocks(postgres({ url: '${urlOf(library, unchecked[library])}', table: 'locks' }))
    await locks.with('idle', () => undefined)
    process.stdout.write('done')`
  const run = ['--input-type=module', '-e', program]
  const { stdout } = await promisify(execFile)(process.execPath, run, {
    cwd: import.meta.dirname,
    timeout: scaled(20_000),
  })
  expect(stdout).toBe('done')
})
