import { zookeeper } from '@locks/zookeeper'
import { createLocks } from '@locks/core'
import { assertInTime } from '@locks/core/conformance'
import { createClient, State } from 'node-zookeeper-client'
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { fourLetterWord } from '../../../conformance/services/index.ts'
import { freePorts } from '../../../conformance/services/ports.ts'
import { lockName, testBed } from './support/bed.ts'
import { ms, pass, until } from './support/raw-client.ts'

const bed = testBed()

function node(script: string, ...args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, ...args], {
    cwd: join(import.meta.dirname, '..'),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

/** A port on which connecting neither succeeds nor fails: nothing accepts, and the backlog is full. */
async function hangingPort(): Promise<number> {
  const child = node(`import { createServer } from 'node:net'
    const server = createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      const never = new Int32Array(new SharedArrayBuffer(4))
      process.stdout.write(String(server.address().port), () => { for (;;) Atomics.wait(never, 0, 0) })
    })`)
  const { stdout } = child
  if (stdout === null) throw new Error('no output')
  const port = Number(String(await once(stdout, 'data')))
  const waiting: Socket[] = []
  onTestFinished(() => waiting.forEach((socket) => socket.destroy()))
  await until('a connection that hangs', 10_000, async () => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined)
    waiting.push(socket)
    await pass(100)
    // What happened while this process stood still is read before the next turn.
    await new Promise((resolve) => setImmediate(resolve))
    return socket.connecting
  })
  return port
}

/** Fails to acquire a lock. Returns how long the process stays alive after it has nothing left to do. */
async function lingering(servers: string, last: string): Promise<number> {
  const child = node(
    `import { createLocks } from '@locks/core'
     import { zookeeper } from '@locks/zookeeper'
     const locks = createLocks(zookeeper({ servers: process.argv[1] }))
     const outcome = await locks.lock('a').tryAcquire().catch(({ code }) => code)
     ${last}
     process.stdout.write(outcome)`,
    servers,
  )
  const { stdout } = child
  if (stdout === null) throw new Error('no output')
  const exited = once(child, 'exit')
  expect(String(await once(stdout, 'data'))).toBe('LOCK_UNAVAILABLE')
  const doneAt = performance.now()
  await exited
  return performance.now() - doneAt
}

test('a client that is closed while it connects does not keep the process alive', async () => {
  const port = await hangingPort()
  await assertInTime('its end', 3_000, await lingering(`127.0.0.1:${port}`, 'await locks.close()'))
})

test('a client that finds no server and is never closed does not keep the process alive', async () => {
  const [port] = await freePorts(1)
  await assertInTime('its end', 3_000, await lingering(`127.0.0.1:${port}`, ''))
})

test('an error about a missing connection has its reason as the cause', async () => {
  const [port] = await freePorts(1)
  const locks = bed.open({ servers: `127.0.0.1:${port}` })
  const refused = { code: 'LOCK_UNAVAILABLE', cause: { code: 'ECONNREFUSED', port } }
  await expect(locks.lock(lockName()).tryAcquire()).rejects.toMatchObject(refused)
})

test('a short session timeout does not shorten the time for the first connection', async () => {
  const proxy = await bed.proxy()
  // A round trip takes longer than the session timeout.
  proxy.delay(400)
  const { adapter, reports } = bed.adapter({ sessionTimeoutMs: 600 }, proxy)
  await until('a connection', 20_000, async () => {
    await adapter.inspect(lockName()).catch(() => undefined)
    return reports.includes('ok')
  })
})

test('giving up a server while connecting to it does not end the connection to the next one', async () => {
  const hanging = await hangingPort()
  const client = createClient(`127.0.0.1:${hanging}`, { sessionTimeout: ms(4_000), spinDelay: 50 })
  onTestFinished(() => client.close())
  const states: State[] = []
  client.on('state', (state: State) => void states.push(state))
  client.connect()
  const locks = createLocks(zookeeper({ client }), { storeTimeoutMs: ms(20_000) })
  const { host, port } = bed.server
  client.connectionManager.servers.push({ host, port })
  await locks.inspect(lockName())
  // As long as the library's connection time-out.
  await pass(5_000)
  expect(states).toEqual([State.SYNC_CONNECTED])
  await locks.close()
})

test('after close, the adapter no longer reconnects a session that it gave up', async () => {
  const proxy = await bed.proxy()
  const { adapter, reports, request, take } = bed.adapter({ sessionTimeoutMs: ms(6_000) }, proxy)
  await take(request(lockName()))
  proxy.refuse()
  await until('the session is given up', 10_000, () => reports.includes('lost'))
  await adapter.close()
  // What was on its way arrives with the next turn.
  await new Promise((resolve) => setImmediate(resolve))
  const { connections } = proxy.stats
  // The library reconnects at least five times in this time.
  await pass(1_000)
  expect(proxy.stats.connections).toBe(connections)
})

test(
  'a client with very many waiters recovers from a broken connection',
  { timeout: ms(360_000) },
  async () => {
    // Setting all of these watches in one request would exceed the megabyte that a server accepts.
    const count = 320
    const options = { basePath: `/${'x'.repeat(2_500)}`, sessionTimeoutMs: ms(30_000) }
    const { locks, proxy } = await bed.wired(options)
    const holder = bed.open(options)
    const names = Array.from({ length: count }, (_, n) => lockName(String(n)).padEnd(1_024, 'x'))
    const held = await Promise.all(names.map((name) => holder.lock(name).acquire()))
    const own = await locks.lock(lockName()).acquire()
    const waiting = Promise.all(names.map((name) => locks.lock(name).acquire({ waitMs: ms(100_000) })))
    const watches = new RegExp(`^zk_watch_count\\t${count}$`, 'm')
    await until('all watch', 60_000, async () => watches.test(await fourLetterWord(bed.server, 'mntr')))
    proxy.reset()
    await Promise.all(held.map((lease) => lease.release()))
    expect(await waiting).toHaveLength(count)
    own.assertHeld()
  },
)

test(
  'a server that is slow to answer many requests is not treated as silent',
  { timeout: ms(360_000) },
  async () => {
    const { locks, proxy } = await bed.wired({ sessionTimeoutMs: ms(60_000) }, { storeTimeoutMs: ms(60_000) })
    const first = await locks.lock(lockName()).acquire()
    // Replies arrive byte by byte, all together for longer than a server may be silent, and each for less.
    const { connections } = proxy.stats
    proxy.slice(1)
    const startedAt = performance.now()
    const names = Array.from({ length: 12 }, () => lockName())
    await Promise.all(names.map((name) => locks.lock(name).acquire({ waitMs: ms(100_000) })))
    const tookMs = performance.now() - startedAt
    expect(tookMs).toBeGreaterThan(4_000)
    // A server that is treated as silent is connected to again; so is one whose answers take two fifths of the session.
    if (proxy.stats.connections > connections) await assertInTime('the answers', ms(20_000), tookMs)
    expect(proxy.stats.connections).toBe(connections)
    first.assertHeld()
  },
)
