import { isLockError } from '@locks/core'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Address } from '../services/index.ts'

/** What happens to one reply. An inserted one comes before it, or in its place if the connection is cut there. */
export type Shift = 'drop' | 'duplicate' | { readonly insert: string; readonly cut?: boolean }

export interface ShiftingProxy extends Address {
  /** Does that to the next reply to a request that contains `text`. Resolves once it was done. */
  shift(how: Shift, text: string): Promise<void>
}

/** Ways to get the replies of a connection out of step; what is inserted looks like a grant, a list and a number. */
export const shifts: readonly (readonly [string, Shift])[] = [
  ['lost', 'drop'],
  ['doubled', 'duplicate'],
  ['preceded by a text', { insert: '$16\r\n1700000000000000\r\n' }],
  ['preceded by a list', { insert: '*2\r\n$1\r\n1\r\n:1\r\n' }],
  ['preceded by a number', { insert: ':1\r\n' }],
]

interface Trap {
  readonly how: Shift
  readonly text: string
  readonly sprung: () => void
}

/** Between a client and a Redis server: passes everything on, but for replies that it was told to lose or to invent. */
export async function startShiftingProxy(target: Address): Promise<ShiftingProxy> {
  const sockets = new Set<Socket>()
  const traps: Trap[] = []
  const track = (socket: Socket): Socket => {
    sockets.add(socket)
    return socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
  }
  const server = createServer({ noDelay: true }, (accepted) => {
    const client = track(accepted)
    const upstream = track(connect({ host: target.host, port: target.port, noDelay: true }))
    /** One for each request that was not answered yet. */
    const expected: (Trap | undefined)[] = []
    const requests = splitter((request) => {
      const index = traps.findIndex(({ text }) => request.includes(text))
      expected.push(index < 0 ? undefined : traps.splice(index, 1)[0])
      upstream.write(request, 'latin1')
    })
    const replies = splitter((reply) => {
      const trap = expected.shift()
      const { how } = trap ?? {}
      if (how !== undefined && typeof how === 'object') client.write(how.insert, 'latin1')
      if (typeof how === 'object' && how.cut === true) client.end()
      else if (how !== 'drop') client.write(reply, 'latin1')
      if (how === 'duplicate') client.write(reply, 'latin1')
      trap?.sprung()
    })
    client.on('data', requests).on('close', () => upstream.destroy())
    upstream.on('data', replies).on('close', () => client.destroy())
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a server without a TCP port')
  return {
    host: '127.0.0.1',
    port: address.port,
    shift: (how, text) => new Promise((sprung) => traps.push({ how, text, sprung })),
  }
}

/** Calls `found` with each whole message of the protocol. */
function splitter(found: (message: string) => void): (bytes: Buffer) => void {
  let received = Buffer.alloc(0)
  return (bytes) => {
    received = Buffer.concat([received, bytes])
    for (let end = endOf(received, 0); end !== undefined; end = endOf(received, 0)) {
      // Every byte is a character of its own: what is written again is what came.
      found(received.toString('latin1', 0, end))
      received = received.subarray(end)
    }
  }
}

/** Where the message that begins at `start` ends; undefined while it is incomplete. */
function endOf(received: Buffer, start: number): number | undefined {
  const line = received.indexOf('\r\n', start)
  if (line < 0) return undefined
  const type = received.toString('latin1', start, start + 1)
  const count = Number(received.toString('latin1', start + 1, line))
  const after = line + 2
  if (type === '$' || type === '=' || type === '!') {
    const end = after + (count < 0 ? 0 : count + 2)
    return end <= received.length ? end : undefined
  }
  if (!['*', '%', '~', '>'].includes(type)) return after
  let end: number | undefined = after
  for (let n = 0; n < (type === '%' ? 2 * count : count) && end !== undefined; n += 1)
    end = endOf(received, end)
  return end
}

/** What became of a call, where an outage is one of the answers. */
export async function outcome<T>(call: Promise<T>): Promise<T | 'unavailable'> {
  try {
    return await call
  } catch (error) {
    if (isLockError(error, 'LOCK_UNAVAILABLE')) return 'unavailable'
    throw error
  }
}
