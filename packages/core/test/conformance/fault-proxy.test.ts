import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { startFaultProxy, type FaultProxy, type Target } from '../../src/conformance/fault-proxy.ts'

interface Peer {
  readonly socket: Socket
  readonly chunks: Buffer[]
  /** The error code, or `end` after an orderly end. */
  readonly closed: Promise<string>
  text(): string
  received(text: string): Promise<void>
}

interface TestServer extends Target {
  /** The connection with that number, once it is there. */
  peer(index: number): Promise<Peer>
}

const cleanUps: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp()
})

function watch(socket: Socket): Peer {
  const chunks: Buffer[] = []
  let outcome = 'end'
  const text = (): string => Buffer.concat(chunks).toString()
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.on('error', (error: NodeJS.ErrnoException) => (outcome = error.code ?? error.message))
  return {
    socket,
    chunks,
    closed: new Promise((resolve) => socket.on('close', () => resolve(outcome))),
    text,
    async received(wanted) {
      while (text() !== wanted) await once(socket, 'data')
    },
  }
}

async function serve(onConnection: (socket: Socket) => void = () => undefined): Promise<TestServer> {
  const peers: Peer[] = []
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    onConnection(socket)
    peers.push(watch(socket))
    server.emit('peer')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanUps.push(async () => {
    for (const { socket } of peers) socket.destroy()
    server.close()
    await once(server, 'close')
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const peer = async (index: number): Promise<Peer> => {
    for (;;) {
      const found = peers[index]
      if (found) return found
      await once(server, 'peer')
    }
  }
  return { host: '127.0.0.1', port: address.port, peer }
}

function echo(socket: Socket): void {
  socket.on('data', (chunk) => socket.write(chunk))
  socket.on('end', () => socket.end())
}

/** Answers `ok <line>` to each line. */
function answerLines(socket: Socket): void {
  let rest = ''
  socket.on('data', (chunk) => {
    const lines = (rest + chunk.toString()).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) socket.write(`ok ${line}\n`)
  })
  socket.on('end', () => socket.end())
}

async function proxyTo(target: Target): Promise<FaultProxy> {
  const proxy = await startFaultProxy(target)
  cleanUps.push(() => proxy.close())
  return proxy
}

function call(target: Target): Peer {
  const socket = connect({ host: target.host, port: target.port, allowHalfOpen: true })
  const peer = watch(socket)
  cleanUps.push(async () => {
    socket.destroy()
    await peer.closed
  })
  return peer
}

async function dial(target: Target): Promise<Peer> {
  const peer = call(target)
  await once(peer.socket, 'connect')
  return peer
}

async function turns(count: number): Promise<void> {
  for (let done = 0; done < count; done += 1) await turn()
}

/** On return the bytes are in the proxy: over loopback, what was written is readable in the next turns of the loop. */
async function send(peer: Peer, bytes: string): Promise<void> {
  await new Promise((resolve) => peer.socket.write(bytes, resolve))
  await turns(4)
}

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
    // What the kernel's own buffers hold, with room to spare.
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

describe('blackhole', () => {
  test('bytes vanish while old and new connections stay open; a hole ends in a reset', async () => {
    const server = await serve(echo)
    const proxy = await proxyTo(server)
    const [old, untouched] = [await dial(proxy), await dial(proxy)]
    proxy.blackhole()
    const fresh = await dial(proxy)
    await send(old, 'gone')
    await send(fresh, 'gone too')
    expect(proxy.stats).toMatchObject({ open: 3, bytesToServer: 0, swallowed: 12 })
    proxy.pass()
    expect(await old.closed).toBe('ECONNRESET')
    expect(await fresh.closed).toBe('ECONNRESET')
    await send(untouched, 'whole')
    await untouched.received('whole')
    expect(await (await server.peer(0)).closed).toBe('ECONNRESET')
  })

  test('what a delay still held when it began is lost too', async () => {
    const server = await serve(echo)
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    proxy.delay(60_000)
    await send(client, 'held')
    proxy.blackhole()
    expect(proxy.stats.swallowed).toBe(4)
    proxy.slice()
    expect(await client.closed).toBe('ECONNRESET')
    expect((await server.peer(0)).text()).toBe('')
  })

  test('of replies: the server acts, the client never hears', async () => {
    const server = await serve(echo)
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    proxy.blackhole('replies')
    await send(client, 'act')
    await (await server.peer(0)).received('act')
    await send(client, '')
    expect(proxy.stats).toMatchObject({ bytesToServer: 3, bytesToClient: 0, swallowed: 3 })
    proxy.pass()
    expect(await client.closed).toBe('ECONNRESET')
    expect(client.text()).toBe('')
  })

  test('of requests: what the server says by itself arrives', async () => {
    const server = await serve()
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    const peer = await server.peer(0)
    proxy.blackhole('requests')
    await send(client, 'unheard')
    peer.socket.write('notice')
    await client.received('notice')
    expect(peer.text()).toBe('')
    expect(proxy.stats.swallowed).toBe(7)
  })

  test('narrowed to replies, it resets a connection that lost requests', async () => {
    const proxy = await proxyTo(await serve(echo))
    const client = await dial(proxy)
    proxy.blackhole('both')
    await send(client, 'lost')
    proxy.blackhole('replies')
    expect(await client.closed).toBe('ECONNRESET')
  })

  test('a side that hangs up is not missed by the other until it heals', async () => {
    const server = await serve(echo)
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    const peer = await server.peer(0)
    proxy.blackhole()
    client.socket.destroy()
    await client.closed
    await turns(10)
    expect(peer.socket.readableEnded || peer.socket.destroyed).toBe(false)
    proxy.pass()
    expect(await peer.closed).toBe('ECONNRESET')
  })
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

describe('swallowNextReply', () => {
  const acquires = (request: Buffer): boolean => request.includes('acquire')

  test('only the connection with the matching request loses its reply', async () => {
    const server = await serve(answerLines)
    const proxy = await proxyTo(server)
    const [bystander, victim] = [await dial(proxy), await dial(proxy)]
    const swallowed = proxy.swallowNextReply({ matching: acquires })
    await send(bystander, 'get\n')
    await send(victim, 'acquire\n')
    await swallowed
    expect(await victim.closed).toBe('ECONNRESET')
    expect(victim.text()).toBe('')
    await (await server.peer(1)).received('acquire\n')
    await send(bystander, 'acquire\n')
    await bystander.received('ok get\nok acquire\n')
  })

  test('finds a request that comes in pieces', async () => {
    const proxy = await proxyTo(await serve(answerLines))
    const client = await dial(proxy)
    const swallowed = proxy.swallowNextReply({ matching: acquires })
    await send(client, 'acq')
    await send(client, 'uire\n')
    await swallowed
    expect(await client.closed).toBe('ECONNRESET')
    expect(client.text()).toBe('')
  })

  test('stays armed when the connection ends before a reply', async () => {
    const server = await serve((socket) =>
      socket.once('data', (chunk) => chunk.includes('die') && socket.destroy()),
    )
    const proxy = await proxyTo(server)
    const first = await dial(proxy)
    const swallowed = proxy.swallowNextReply()
    await send(first, 'die')
    await once(first.socket, 'end')
    proxy.retarget(await serve(echo))
    const second = await dial(proxy)
    await send(second, 'live')
    await swallowed
    expect(await second.closed).toBe('ECONNRESET')
  })

  test('healing or closing before it happened rejects it', async () => {
    const proxy = await proxyTo(await serve(echo))
    const healed = proxy.swallowNextReply()
    proxy.pass()
    await expect(healed).rejects.toThrow('healed')
    const client = await dial(proxy)
    await send(client, 'safe')
    await client.received('safe')
    const closed = proxy.swallowNextReply()
    await proxy.close()
    await expect(closed).rejects.toThrow('closed')
  })
})

describe('replayNext', () => {
  test('the server gets the request once more, later and by itself; the client notices nothing', async () => {
    const server = await serve(answerLines)
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    const answer = proxy.replayNext({ matching: (request) => request.includes('release'), afterMs: 20 })
    await send(client, 'acquire\n')
    await client.received('ok acquire\n')
    const sentAt = performance.now()
    await send(client, 'release\n')
    await client.received('ok acquire\nok release\n')
    await send(client, 'acquire\n')
    expect(String(await answer)).toBe('ok release\n')
    expect(performance.now() - sentAt).toBeGreaterThanOrEqual(19)
    expect((await server.peer(1)).text()).toBe('release\n')
    await client.received('ok acquire\nok release\nok acquire\n')
  })

  test('a preamble opens the connection of the copy', async () => {
    const server = await serve(answerLines)
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    const answer = proxy.replayNext({ preamble: Buffer.from('auth\n') })
    await send(client, 'release\n')
    expect(String(await answer)).toBe('ok release\n')
    expect((await server.peer(1)).text()).toBe('auth\nrelease\n')
  })

  test('a copy without an answer rejects', async () => {
    const server = await serve(answerLines)
    const proxy = await proxyTo(server)
    const client = await dial(proxy)
    proxy.retarget(await serve((socket) => socket.once('data', () => socket.destroy())))
    const answer = proxy.replayNext()
    await send(client, 'release\n')
    await expect(answer).rejects.toThrow('no answer')
  })
})

test('close: no socket, listener or timer is left, whatever was under way', async () => {
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
