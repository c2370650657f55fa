import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Server } from '../../../conformance/services/index.ts'

const EXECUTE = 0x17

/** A proxy that can give each statement the answer to the one before it. An answer is what comes between two of them. */
export async function lagging(
  server: Pick<Server, 'host' | 'port' | 'url'>,
): Promise<{ url: string; lag: () => void; ended: () => number }> {
  let lags = false
  let ended = 0
  const proxy = createServer((client) => {
    const behind = connect(server.port, server.host)
    let [last, answer] = [Buffer.alloc(0), Buffer.alloc(0)]
    let executes = false
    client
      .on('error', () => undefined)
      .on('data', (bytes) => {
        if (executes) last = answer
        executes = bytes[4] === EXECUTE
        answer = Buffer.alloc(0)
        if (executes && lags) client.write(last)
        behind.write(bytes)
      })
    client.on('close', () => {
      ended += 1
      behind.destroy()
    })
    behind.on('error', () => undefined).on('close', () => client.destroy())
    behind.on('data', (bytes) => {
      answer = Buffer.concat([answer, bytes])
      if (!executes || !lags) client.write(bytes)
    })
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const address = proxy.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const url = server.url.replace(`${server.host}:${server.port}`, `127.0.0.1:${port}`)
  return { url, lag: () => void (lags = true), ended: () => ended }
}
