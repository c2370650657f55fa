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
import { lockName, testBed } from './bed.ts'
import { ms, pass, until } from './support.ts'

const bed = testBed()

function node(script: string, ...args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, ...args], {
    cwd: join(import.meta.dirname, '..'),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

/** A port on which connecting neither succeeds nor fails: nobody accepts, and the queue of those who wait is full. */
async function hangingPort(): Promise<number> {
  const child = node(`import { createServer } from 'node:net'
    const server = createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      process.stdout.write(String(server.address().port), () => { for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0) })
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
    return socket.connecting
  })
  return port
}

/** Asks for a lock in vain. Answers how long the process goes on after it has nothing left to do. */
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

test('a client that was closed while it connected in vain keeps no process alive', async () => {
  const port = await hangingPort()
  await assertInTime('its end', 3_000, await lingering(`127.0.0.1:${port}`, 'await locks.close()'))
})

test('a client that nobody closed and that finds no server keeps no process alive', async () => {
  const [port] = await freePorts(1)
  await assertInTime('its end', 3_000, await lingering(`127.0.0.1:${port}`, ''))
})

test('that there is no connection has a cause that says why', async () => {
  const [port] = await freePorts(1)
  const locks = bed.open({ servers: `127.0.0.1:${port}` })
  const refused = { code: 'LOCK_UNAVAILABLE', cause: { code: 'ECONNREFUSED', port } }
  await expect(locks.lock(lockName()).tryAcquire()).rejects.toMatchObject(refused)
})

test('a session that is to be short does not hurry the first connection', async () => {
  const proxy = await bed.proxy()
  // There and back that takes longer than the session may be silent, or lasts, once there is one.
  proxy.delay(400)
  const { adapter, reports } = bed.adapter({ sessionTimeoutMs: 600 }, proxy)
  await until('a connection', 20_000, async () => {
    await adapter.inspect(lockName()).catch(() => undefined)
    return reports.includes('ok')
  })
})

test('a server that was given up while it was connected to does not cost the connection to the next', async () => {
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
  // As long as the library gives a server to connect.
  await pass(5_000)
  expect(states).toEqual([State.SYNC_CONNECTED])
  await locks.close()
})

test('a session that was given up is not looked after any more once its adapter is closed', async () => {
  const proxy = await bed.proxy()
  const { adapter, reports, request, take } = bed.adapter({ sessionTimeoutMs: ms(6_000) }, proxy)
  await take(request(lockName()))
  proxy.refuse()
  await until('it is given up', 10_000, () => reports.includes('lost'))
  await adapter.close()
  const { connections } = proxy.stats
  // The library tries again every fifth of that, and more often.
  await pass(1_000)
  expect(proxy.stats.connections).toBe(connections)
})

test(
  'a client with very many waiters comes back after its connection broke',
  { timeout: ms(360_000) },
  async () => {
    const { locks, proxy } = await bed.wired({ sessionTimeoutMs: ms(30_000) })
    const holder = bed.open({ sessionTimeoutMs: ms(30_000) })
    // To watch all of these takes more than the megabyte that a server accepts as one request.
    const count = 1_500
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
  'a server that takes its time over many requests is not taken for silent',
  { timeout: ms(360_000) },
  async () => {
    const { locks, proxy } = await bed.wired({ sessionTimeoutMs: ms(60_000) }, { storeTimeoutMs: ms(60_000) })
    const broken: unknown[] = []
    locks.on('jeopardy', ({ cause }) => broken.push(cause ?? new Error('the connection was lost')))
    const first = await locks.lock(lockName()).acquire()
    // Answers come in, byte by byte, for longer than a server may be silent; many short ones, so that none takes so long.
    proxy.slice(1)
    const startedAt = performance.now()
    const names = Array.from({ length: 12 }, () => lockName())
    await Promise.all(names.map((name) => locks.lock(name).acquire({ waitMs: ms(100_000) })))
    expect(performance.now() - startedAt).toBeGreaterThan(4_000)
    // A machine that stood still may have let the client give up; what it gave up by says so.
    if (broken.length > 0) throw broken[0]
    first.assertHeld()
  },
)
