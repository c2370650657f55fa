import { describe, expect, test } from 'vitest'
import { startFaultProxy } from '../../src/conformance/fault-proxy.ts'
import type { FaultProxy, Frames, Shift, Target } from '../../src/conformance/fault-proxy.ts'
import { answerLines, call, cleanUps, dial, proxyTo, send, serve } from './fault-proxy-bed.ts'

/** A reply ends with its line. */
const lines: Frames = () => {
  let rest = Buffer.alloc(0)
  return (bytes) => {
    rest = Buffer.concat([rest, bytes])
    const replies: Buffer[] = []
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      replies.push(rest.subarray(0, end + 1))
      rest = rest.subarray(end + 1)
    }
    return replies
  }
}

async function framedProxyTo(target: Target): Promise<FaultProxy> {
  const proxy = await startFaultProxy(target, { frames: lines })
  cleanUps.push(() => proxy.close())
  return proxy
}

/** How a connection ends whose client closes when the other side does. */
async function endOf({ socket, closed }: ReturnType<typeof call>): Promise<string> {
  socket.on('end', () => socket.end())
  return closed
}

describe('refuseNext', () => {
  test.each([
    ['reset', 'ECONNRESET'],
    ['close', 'end'],
  ] as const)('%s: so many new connections end at once, and the next one works', async (how, outcome) => {
    const proxy = await proxyTo(await serve(answerLines))
    const before = await dial(proxy)
    const refused = proxy.refuseNext(2, how)
    expect(await endOf(call(proxy))).toBe(outcome)
    expect(await endOf(call(proxy))).toBe(outcome)
    await refused
    for (const client of [before, await dial(proxy)]) {
      await send(client, 'a\n')
      await client.received('ok a\n')
    }
  })

  test('is over when the proxy heals, and says so to who waits', async () => {
    const proxy = await proxyTo(await serve(answerLines))
    const refused = proxy.refuseNext(2)
    proxy.pass()
    await expect(refused).rejects.toThrow('healed')
    const client = await dial(proxy)
    await send(client, 'a\n')
    await client.received('ok a\n')
  })
})

describe('cutNext', () => {
  test.each([0, 1, 7, 12])(
    'the client gets %i bytes of what the server said, and then the end',
    async (bytes) => {
      const proxy = await proxyTo(await serve((socket) => socket.end('hello client')))
      const cut = proxy.cutNext(1, bytes)
      const client = call(proxy)
      expect(await endOf(client)).toBe('end')
      await cut
      expect(client.text()).toBe('hello client'.slice(0, bytes))
      const next = call(proxy)
      await next.received('hello client')
    },
  )

  test('counts over several chunks', async () => {
    const proxy = await proxyTo(await serve(answerLines))
    const cut = proxy.cutNext(1, 7)
    const client = await dial(proxy)
    await send(client, 'a\n')
    await client.received('ok a\n')
    await send(client, 'b\n')
    expect(await endOf(client)).toBe('end')
    await cut
    expect(client.text()).toBe('ok a\nok')
  })
})

describe('shiftNextReply', () => {
  const expected: Readonly<Record<Shift, string>> = {
    drop: 'ok a\nok c\n',
    duplicate: 'ok a\nok b\nok b\nok c\n',
    insert: 'ok a\nok a\nok b\nok c\n',
  }

  test.each(['drop', 'duplicate', 'insert'] as const)(
    '%s: one reply, and the connection goes on',
    async (shift) => {
      const proxy = await proxyTo(await serve(answerLines))
      const client = await dial(proxy)
      await send(client, 'a\n')
      await client.received('ok a\n')
      const shifted = proxy.shiftNextReply(shift, { matching: (request) => request.includes('b') })
      await send(client, 'b\n')
      await shifted
      await send(client, 'c\n')
      await client.received(expected[shift])
    },
  )

  test.each(['drop', 'duplicate', 'insert'] as const)(
    '%s: several replies in one chunk are split by frames',
    async (shift) => {
      const answers = ['ok a\n', 'ok b\nok c\n']
      const server = await serve((socket) => socket.on('data', () => socket.write(answers.shift() ?? '')))
      const proxy = await framedProxyTo(server)
      const client = await dial(proxy)
      await send(client, 'a\n')
      await client.received('ok a\n')
      const shifted = proxy.shiftNextReply(shift)
      await send(client, 'b\nc\n')
      await shifted
      await client.received(expected[shift])
    },
  )

  test('a reply of which a part was passed on before is left whole, and the next one is shifted', async () => {
    const server = await serve()
    const proxy = await framedProxyTo(server)
    const client = await dial(proxy)
    const peer = await server.peer(0)
    await send(peer, 'ok ')
    await client.received('ok ')
    const shifted = proxy.shiftNextReply('drop')
    await send(client, '?')
    await send(peer, 'a\nok ')
    await client.received('ok a\n')
    await send(peer, 'b\nok c\n')
    await shifted
    await client.received('ok a\nok c\n')
  })
})
