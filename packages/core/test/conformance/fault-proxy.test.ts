import { once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { startFaultProxy } from '../../src/conformance/fault-proxy.ts'
import { answerLines, call, cleanUps, dial, echo, proxyTo, send, serve, turns } from './fault-proxy-bed.ts'

describe('pass', () => {
  test('bytes flow both ways and are counted', async () => {
    const proxy = await proxyTo(await serve(echo))
    const client = await dial(proxy)
    await send(client, 'hello')
    await client.received('hello')
    expect(proxy.stats).toEqual({ connections: 1, open: 1, bytesToServer: 5, bytesToClient: 5, swallowed: 0 })
  })

  test('a half-closed client still gets the answer, and both ends close in order', async () => {
    const server = await serve((socket) => socket.on('end', () => socket.end('late answer')))
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    client.socket.end('question')
    await client.received('late answer')
    expect(await client.closed).toBe('end')
    const peer = await server.peer(0)
    expect(peer.text()).toBe('question')
    expect(await peer.closed).toBe('end')
  })

  test('a slow reader slows the sender down instead of filling the proxy', async () => {
    const size = 32 * 1024 * 1024
    const piece = Buffer.alloc(64 * 1024, 7)
    let sent = 0
    let backlog = 0
    const server = await serve((socket) =>
      socket.on('data', () => {
        backlog = Math.max(backlog, sent - socket.bytesRead)
        socket.pause()
        setTimeout(() => socket.resume(), 1)
      }),
    )
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    const peer = await server.peer(0)
    const ended = once(peer.socket, 'end')
    for (; sent < size; sent += piece.length)
      await new Promise((resolve) => client.socket.write(piece, resolve))
    client.socket.end()
    await ended
    expect(peer.socket.bytesRead).toBe(size)
    // More than the kernel's buffers hold.
    expect(backlog).toBeLessThan(size / 2)
  })

  test('a reset by the client reaches the server as a reset', async () => {
    const server = await serve()
    const client = await dial(await proxyTo(server))
    const peer = await server.peer(0)
    client.socket.resetAndDestroy()
    expect(await peer.closed).toBe('ECONNRESET')
  })

  test('a server that cannot be reached resets the client and nothing else', async () => {
    const server = await serve(echo)
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    const nobody = await startFaultProxy(server)
    await nobody.close()
    proxy.retarget(nobody)
    expect(await call(proxy).closed).toBe('ECONNRESET')
    await send(client, 'still here')
    await client.received('still here')
  })
})

describe('delay', () => {
  test('each chunk is held back that long, both ways, in order', async () => {
    const server = await serve(echo)
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    proxy.delay(40)
    const sentAt = performance.now()
    for (const bytes of ['one ', 'two ', 'three ', 'four']) await send(client, bytes)
    await (await server.peer(0)).received('one two three four')
    expect(performance.now() - sentAt).toBeGreaterThanOrEqual(40)
    await client.received('one two three four')
    expect(performance.now() - sentAt).toBeGreaterThanOrEqual(80)
  })

  test('of replies alone lets requests pass at once', async () => {
    const server = await serve(echo)
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    proxy.delay(60_000, { direction: 'replies' })
    await send(client, 'request')
    await (await server.peer(0)).received('request')
    await turn()
    expect(client.text()).toBe('')
    proxy.pass()
    await client.received('request')
  })

  test('late replies still arrive while requests vanish', async () => {
    const server = await serve(echo)
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    const peer = await server.peer(0)
    proxy.delay(60_000, { direction: 'replies' })
    await send(client, 'first')
    await peer.received('first')
    proxy.delay(5, { direction: 'replies', vanishing: 'requests' })
    await send(client, 'second')
    await client.received('first')
    expect(peer.text()).toBe('first')
  })

  test('a shorter delay lets nothing overtake what is held', async () => {
    const server = await serve()
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    proxy.delay(60_000)
    await send(client, 'first ')
    proxy.delay(5)
    await send(client, 'second')
    await (await server.peer(0)).received('first second')
  })

  test('healing lets what was held flow at once, the end of the stream included', async () => {
    const server = await serve(echo)
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    const peer = await server.peer(0)
    proxy.delay(60_000)
    await send(client, 'held')
    client.socket.end()
    await turn()
    expect(peer.text()).toBe('')
    proxy.pass()
    await client.received('held')
    expect(await client.closed).toBe('end')
  })
})

test('slice: every byte arrives by itself, both ways', async () => {
  const server = await serve((socket) => socket.once('data', () => socket.write('answer')))
  // A name to look up keeps the proxy connecting for a while, during which bytes must not pile up either.
  const proxy = await proxyTo({ ...server, host: 'localhost' })
  proxy.slice()
  const client = await dial(proxy)
  await send(client, 'question')
  const peer = await server.peer(0)
  await peer.received('question')
  await client.received('answer')
  expect(peer.chunks.map(String)).toEqual('question'.split(''))
  expect(client.chunks.map(String)).toEqual('answer'.split(''))
})

test('reset: both sides of current connections see ECONNRESET, new ones pass', async () => {
  const server = await serve(echo)
  const proxy = await proxyTo(server)
  const client = await dial(proxy)
  const peer = await server.peer(0)
  proxy.reset()
  expect(await client.closed).toBe('ECONNRESET')
  expect(await peer.closed).toBe('ECONNRESET')
  const next = await dial(proxy)
  await send(next, 'again')
  await next.received('again')
})

test('refuse: old and new connections are reset until it heals', async () => {
  const server = await serve(echo)
  const proxy = await proxyTo(server)
  const client = await dial(proxy)
  await server.peer(0)
  proxy.refuse()
  expect(await client.closed).toBe('ECONNRESET')
  expect(await call(proxy).closed).toBe('ECONNRESET')
  proxy.pass()
  const next = await dial(proxy)
  await send(next, 'again')
  await next.received('again')
  expect(proxy.stats.connections).toBe(3)
})

test('refuse at the first bytes: a new connection stands until it says something, and not after it heals', async () => {
  const server = await serve(echo)
  const proxy = await proxyTo(server)
  proxy.refuse('first-bytes')
  const [eager, silent] = [await dial(proxy), await dial(proxy)]
  eager.socket.write('hello')
  expect(await eager.closed).toBe('ECONNRESET')
  expect(silent.socket.destroyed).toBe(false)
  proxy.pass()
  expect(await silent.closed).toBe('ECONNRESET')
  const next = await dial(proxy)
  await send(next, 'again')
  await next.received('again')
})

test('retarget: new connections go to the new server, old ones stay', async () => {
  const [first, second] = [await serve(echo), await serve(echo)]
  const proxy = await proxyTo(first)
  const old = await dial(proxy)
  proxy.retarget(second)
  const next = await dial(proxy)
  await send(old, 'to the first')
  await send(next, 'to the second')
  await (await first.peer(0)).received('to the first')
  await (await second.peer(0)).received('to the second')
})

test('close: no socket, listener or timer is left, even with connections under way', async () => {
  const server = await serve(answerLines)
  const silent = await serve()
  await turns(4)
  const openSockets = (): number =>
    process.getActiveResourcesInfo().filter((kind) => kind.startsWith('TCP')).length
  const before = openSockets()
  const set = vi.spyOn(globalThis, 'setTimeout')
  const cleared = vi.spyOn(globalThis, 'clearTimeout')
  cleanUps.push(async () => void vi.restoreAllMocks())
  const proxy = await startFaultProxy(server)
  const client = await dial(proxy)
  const replayed = proxy.replayNext({ afterMs: 60_000 })
  await send(client, 'once\n')
  await client.received('ok once\n')
  proxy.retarget(silent)
  const other = await dial(proxy)
  proxy.delay(60_000)
  await send(client, 'held\n')
  await send(other, 'held\n')
  const [first, second] = [await server.peer(0), await silent.peer(0)]
  await proxy.close()
  await proxy.close()
  await expect(replayed).rejects.toThrow('closed')
  expect(proxy.stats.open).toBe(0)
  await Promise.all([client, other, first, second].map((peer) => peer.closed))
  await turns(4)
  expect(openSockets()).toBe(before)
  const timers = set.mock.results.map((result): unknown => result.value)
  expect(timers).toHaveLength(3)
  for (const timer of timers) expect(cleared.mock.calls.some(([handle]) => handle === timer)).toBe(true)
  await expect(dial(proxy)).rejects.toThrow('ECONNREFUSED')
})
