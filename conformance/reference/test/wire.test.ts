import { createLocks } from '@locks/core'
import { assertInTime } from '@locks/core/conformance'
import { reference } from '@locks/reference'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { bare, startProxy, startServer, until } from './setup.ts'
import { never } from '../../test-support/bare-adapter.ts'

const has =
  (method: string) =>
  (request: Buffer): boolean =>
    request.includes(`"method":"${method}"`)

test('an attempt whose reply was lost is sent again and gets the same fence', async () => {
  const server = await startServer()
  const proxy = await startProxy(server)
  const [client, other] = [bare(proxy), bare(server)]
  const swallowed = proxy.swallowNextReply({ matching: has('attempt') })
  const grant = await client.take(client.request('order'))
  await swallowed
  expect((await other.adapter.inspect('order')).holder?.fence).toBe(grant.fence)
  expect(await client.adapter.release(grant)).toBe('released')
  const next = await other.take(other.request('order'))
  expect(next.fence).toBe(grant.fence + 1n)
})

test('a release whose reply was lost is no loss, although a successor holds the name by then', async () => {
  const server = await startServer()
  const proxy = await startProxy(server)
  const locks = createLocks(reference({ url: `tcp://${proxy.host}:${proxy.port}` }))
  onTestFinished(() => locks.close())
  const other = bare(server)
  const lease = await locks.lock('order').acquire()
  const waiting = other.request('order', { willWait: true })
  await other.adapter.attempt(waiting)
  const swallowed = proxy.swallowNextReply({ matching: has('release') })
  await lease.release()
  await swallowed
  expect(await other.adapter.wait?.(waiting, 20_000, never)).toMatchObject({ fence: lease.fence + 1n })
})

test('a hand-off whose message was lost is found by the wait that is sent again', async () => {
  const server = await startServer()
  const proxy = await startProxy(server)
  const [client, other] = [bare(proxy), bare(server)]
  const held = await other.take(other.request('order'))
  const waiting = client.request('order', { willWait: true })
  await client.adapter.attempt(waiting)
  const swallowed = proxy.swallowNextReply({ matching: has('wait') })
  const pushed = client.adapter.wait?.(waiting, 20_000, never)
  await other.adapter.inspect('order')
  await other.adapter.release(held)
  await swallowed
  expect(await pushed).toMatchObject({ attemptId: waiting.attemptId, fence: held.fence + 1n })
})

test('a hand-off is dated by when it was made, not by when it was read', async () => {
  const server = await startServer()
  const proxy = await startProxy(server)
  const [client, other] = [bare(proxy), bare(server)]
  const held = await other.take(other.request('order'))
  const waiting = client.request('order', { willWait: true })
  await client.adapter.attempt(waiting)
  const asked = performance.now()
  const pushed = client.adapter.wait?.(waiting, 20_000, never)
  // Behind the wait on the same connection, so the server has that one by now, and took no longer.
  await client.adapter.inspect('order')
  const roundTrip = performance.now() - asked
  await sleep(2 * roundTrip)
  proxy.delay(300)
  const releasing = performance.now()
  await other.adapter.release(held)
  const released = performance.now()
  const { grantedAt = NaN } = (await pushed) ?? {}
  expect(performance.now() - releasing).toBeGreaterThan(250)
  expect(grantedAt).toBeLessThanOrEqual(released)
  expect(grantedAt).toBeGreaterThanOrEqual(releasing - roundTrip)
})

test('an aborted wait settles at once, and the server does not take its hand-off for told', async () => {
  const server = await startServer()
  const proxy = await startProxy(server)
  const [client, other] = [bare(proxy), bare(server)]
  const held = await other.take(other.request('order'))
  const waiting = client.request('order', { willWait: true })
  await client.adapter.attempt(waiting)
  const controller = new AbortController()
  const pushed = client.adapter.wait?.(waiting, 20_000, controller.signal)
  controller.abort()
  expect(await pushed).toBeUndefined()
  expect((await client.adapter.inspect('order')).waiters).toBe(1)
  await other.adapter.release(held)
  expect((await other.adapter.inspect('order')).holder?.owner).toBe(waiting.owner)
  proxy.refuse()
  await until('it is free', async () => !(await other.adapter.inspect('order')).held)
})

test('a withdrawn waiter leaves the queue', async () => {
  const server = await startServer()
  const [client, other] = [bare(server), bare(server)]
  const held = await other.take(other.request('order'))
  const waiting = client.request('order', { willWait: true })
  await client.adapter.attempt(waiting)
  await client.adapter.withdraw(waiting)
  expect((await other.adapter.inspect('order')).waiters).toBe(0)
  await other.adapter.release(held)
  expect((await other.adapter.inspect('order')).held).toBe(false)
})

test('a wait ends by the local clock while the server hangs', async () => {
  const server = await startServer()
  const [client, other] = [bare(server), bare(server)]
  await other.take(other.request('order'))
  const waiting = client.request('order', { willWait: true })
  await client.adapter.attempt(waiting)
  server.pause()
  expect(await client.adapter.wait?.(waiting, 50, never)).toBeUndefined()
})

test('a hand-off that was never told is withdrawn with the connection, a told one stays', async () => {
  const server = await startServer()
  const proxy = await startProxy(server)
  const [client, other] = [bare(proxy), bare(server)]
  const first = await other.take(other.request('untold'))
  await client.adapter.attempt(client.request('untold', { willWait: true }))
  await client.take(client.request('told'))
  await other.adapter.release(first)
  expect((await other.adapter.inspect('untold')).held).toBe(true)
  proxy.refuse()
  await until('it is free', async () => !(await other.adapter.inspect('untold')).held)
  expect((await other.adapter.inspect('told')).held).toBe(true)
})

test('a newer connection of a client ends the older one, and a late older one is not served', async () => {
  const server = await startServer()
  const dial = (connection: number) => {
    const socket = connect({ host: server.host, port: server.port })
    socket.write(`${JSON.stringify({ id: 0, method: 'hello', args: ['client', connection] })}\n`)
    onTestFinished(() => void socket.destroy())
    return socket
  }
  const [first, second] = [dial(1), dial(2)]
  await once(second, 'data')
  await once(first.resume(), 'close')
  const late = dial(1)
  let served = ''
  late.on('data', (chunk) => (served += chunk))
  await once(late, 'close')
  expect(served).toBe('')
  expect(second.readyState).toBe('open')
})

test('requests that find no server fail as LOCK_UNAVAILABLE after a few seconds', async () => {
  const server = await startServer()
  const { adapter } = bare(server)
  await adapter.inspect('order')
  await server.kill()
  const start = performance.now()
  await expect(adapter.inspect('order')).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  await assertInTime('the end', 4_000, performance.now() - start)
})

test('closing while it connects in vain ends quietly', async () => {
  const server = await startServer()
  const { adapter } = bare(server)
  await server.kill()
  const refused = expect(adapter.inspect('order')).rejects.toMatchObject({ code: 'LOCK_CLOSED' })
  await adapter.close()
  await refused
})

test('a config with a bad url or an unknown key is refused', async () => {
  const { fromConfig } = await import('@locks/reference')
  for (const options of [{}, { url: 'tcp://nowhere' }, { url: 'tcp://127.0.0.1:1', port: 2 }])
    expect(() => fromConfig(options)).toThrow(expect.objectContaining({ code: 'LOCK_INVALID_ARGUMENT' }))
})
