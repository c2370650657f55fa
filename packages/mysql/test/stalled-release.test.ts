import { createLocks } from '@locks/core'
import { fromConfig } from '@locks/mysql'
import { createPool } from 'mysql2/promise'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { cell, connect, startServer } from './support/setup.ts'

const directory = mkdtempSync(join(tmpdir(), 'locks-tls-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))
const [key, certificate] = [join(directory, 'key.pem'), join(directory, 'certificate.pem')]
const selfSigned = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost']
execFileSync('openssl', [...selfSigned, '-keyout', key, '-out', certificate], { stdio: 'ignore' })
// The server may run as another user.
for (const path of [directory, key, certificate]) chmodSync(path, 0o755)

const server = await startServer({ 'ssl-cert': certificate, 'ssl-key': key })
const tables = { row: 'locks_holders', named: 'locks_named' } as const

/** Kills a connection from another process, while the event loop of this one is blocked. */
function killStanding(thread: string): void {
  const source = `import { createConnection } from 'mysql2/promise'
    const connection = await createConnection(process.argv[1])
    await connection.query('KILL CONNECTION ' + process.argv[2])
    const left = 'SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ' + process.argv[2]
    while ((await connection.query(left))[0].length > 0);
    await connection.end()`
  const args = ['--input-type=module', '-e', source, server.url, thread]
  execFileSync(process.execPath, args, { cwd: import.meta.dirname })
}

test.each([
  ['row', 'plain'],
  ['row', 'TLS'],
  ['named', 'plain'],
  ['named', 'TLS'],
] as const)(
  '%s over %s: a release after the connection was killed while the process was blocked reports a lost lock',
  async (strategy, wire) => {
    const control = await connect(server)
    const tls = wire === 'TLS' && { ssl: { rejectUnauthorized: false } }
    const pool = createPool({ uri: server.url, ...tls })
    onTestFinished(() => pool.end())
    const locks = createLocks(fromConfig({ pool, strategy }))
    onTestFinished(() => locks.close())
    const threadOf = `SELECT IS_USED_LOCK(hold) FROM ${tables[strategy]} WHERE name = ?`
    const phases: (() => Promise<unknown>)[] = [
      async () => undefined,
      () => new Promise((resolve) => setImmediate(resolve)),
      () => new Promise((resolve) => setTimeout(resolve, 1)),
    ]
    // Released from different phases of the event loop.
    for (const phase of phases) {
      const lease = await locks.lock('stalled').acquire()
      const thread = await cell(control, threadOf, [Buffer.from('stalled')])
      await phase()
      killStanding(thread)
      await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
    }
  },
)
