import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Server } from '../../../../conformance/services/index.ts'

/** What happens to replies from now on. */
export interface Lag {
  /** Every statement gets the reply to the one before it. */
  all: boolean
  /** The same on the connection of the next statement alone, which gets this reply. */
  insert: Buffer | undefined
}

export interface LaggingProxy {
  readonly url: string
  readonly lag: () => void
  readonly insert: (reply: Buffer) => void
  /** How many clients have disconnected. */
  readonly ended: () => number
}

/** A proxy that can put replies out of step. `pass` knows the protocol, and where a reply ends. */
export async function startLaggingProxy(
  { host, port, url }: Pick<Server, 'host' | 'port' | 'url'>,
  pass: (client: Socket, behind: Socket, lag: Lag) => void,
): Promise<LaggingProxy> {
  const lag: Lag = { all: false, insert: undefined }
  let ended = 0
  const proxy = createServer((client) => {
    const behind = connect(port, host)
    client.on('error', () => undefined)
    client.on('close', () => {
      ended += 1
      behind.destroy()
    })
    behind.on('error', () => undefined).on('close', () => client.destroy())
    pass(client, behind, lag)
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const address = proxy.address()
  const to = typeof address === 'object' ? address?.port : undefined
  return {
    url: url.replace(`${host}:${port}`, `127.0.0.1:${to}`),
    lag: () => void (lag.all = true),
    insert: (reply) => void (lag.insert = reply),
    ended: () => ended,
  }
}
