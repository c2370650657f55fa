import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { answerLines, dial, echo, proxyTo, send, serve, turns } from './fault-proxy-bed.ts'

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

  test('of replies: the server acts, the client gets no reply', async () => {
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
    await expect(answer).rejects.toThrow('no reply')
  })
})
