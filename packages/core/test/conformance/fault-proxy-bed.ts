import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach } from 'vitest'
import { startFaultProxy, type FaultProxy, type Target } from '../../src/conformance/fault-proxy.ts'

interface Peer {
  readonly socket: Socket
  readonly chunks: Buffer[]
  /** The error code, or `end` after a normal end. */
  readonly closed: Promise<string>
  text(): string
  received(text: string): Promise<void>
}

interface TestServer extends Target {
  /** The connection with that number, once it is there. */
  peer(index: number): Promise<Peer>
}

export const cleanUps: (() => Promise<void>)[] = []
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

export async function serve(onConnection: (socket: Socket) => void = () => undefined): Promise<TestServer> {
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

export function echo(socket: Socket): void {
  socket.on('data', (chunk) => socket.write(chunk))
  socket.on('end', () => socket.end())
}

/** Replies `ok <line>` to each line. */
export function answerLines(socket: Socket): void {
  let rest = ''
  socket.on('data', (chunk) => {
    const lines = (rest + chunk.toString()).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) socket.write(`ok ${line}\n`)
  })
  socket.on('end', () => socket.end())
}

export async function proxyTo(target: Target): Promise<FaultProxy> {
  const proxy = await startFaultProxy(target)
  cleanUps.push(() => proxy.close())
  return proxy
}

export function call(target: Target): Peer {
  const socket = connect({ host: target.host, port: target.port, allowHalfOpen: true })
  const peer = watch(socket)
  cleanUps.push(async () => {
    socket.destroy()
    await peer.closed
  })
  return peer
}

export async function dial(target: Target): Promise<Peer> {
  const peer = call(target)
  await once(peer.socket, 'connect')
  return peer
}

export async function turns(count: number): Promise<void> {
  for (let done = 0; done < count; done += 1) await turn()
}

/** On return the proxy has the bytes: over loopback, they are readable within a few iterations of the event loop. */
export async function send(peer: Peer, bytes: string): Promise<void> {
  await new Promise((resolve) => peer.socket.write(bytes, resolve))
  await turns(4)
}
