import { connect } from 'node:net'
import type { Address } from '../service.ts'
import { scaled } from '../timing.ts'

export interface Parsed<T> {
  readonly value: T
  /** How many of the received bytes the value took. */
  readonly used: number
}

/** One side of a connection, for the few bytes that prove a server alive. */
export interface Line {
  send(bytes: Buffer | string): void
  /** Waits until `parse` finds a whole message at the start of what was received. */
  read<T>(parse: (received: Buffer) => Parsed<T> | undefined): Promise<T>
  /** Everything up to the moment the server closes the connection. */
  rest(): Promise<string>
}

/** Connects, has one conversation, disconnects. Rejects when it takes longer than the bound. */
export async function talk<T>(
  { host, port }: Address,
  conversation: (line: Line) => Promise<T>,
  timeoutMs = 5_000,
): Promise<T> {
  const bound = scaled(timeoutMs)
  const socket = connect({ host, port, noDelay: true })
  let received = Buffer.alloc(0)
  let failure: Error | undefined
  let closed = false
  let wake = (): void => undefined
  const fail = (error: Error): void => {
    failure ??= error
    wake()
  }
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk])
    wake()
  })
  socket.once('error', fail)
  socket.once('close', () => {
    closed = true
    fail(new Error(`${host}:${port} closed the connection before it answered`))
  })
  const timer = setTimeout(() => fail(new Error(`${host}:${port} did not answer within ${bound} ms`)), bound)

  async function until<R>(look: () => R | undefined): Promise<R> {
    for (;;) {
      const found = look()
      if (found !== undefined) return found
      if (failure !== undefined) throw failure
      await new Promise<void>((resolve) => (wake = resolve))
    }
  }

  try {
    return await conversation({
      send: (bytes) => void socket.write(bytes),
      read: async (parse) => {
        const { value, used } = await until(() => parse(received))
        received = received.subarray(used)
        return value
      },
      rest: () => until(() => (closed && received.length > 0 ? received.toString('utf8') : undefined)),
    })
  } finally {
    clearTimeout(timer)
    socket.destroy()
  }
}

/** A frame that starts with a length; undefined while it is incomplete. */
export function frame(received: Buffer, start: number, length: number): Parsed<Buffer> | undefined {
  if (received.length < start + length) return undefined
  return { value: received.subarray(start, start + length), used: start + length }
}
