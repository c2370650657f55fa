import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Server } from '../../../conformance/services/index.ts'

const [QUERY, EXECUTE] = [0x03, 0x17]

/** What the server says of a statement that writes, and had nothing to write. */
export const NOTHING_CHANGED: Buffer = Buffer.from('0700000100000002000000', 'hex')

/** What the server says of a statement that it undid because of a deadlock. */
export const DEADLOCK: Buffer = Buffer.from('11000001ffbd04233430303031646561646c6f636b', 'hex')

/**
 * A proxy that can give each statement the answer to the one before it. An answer is what comes between two of them.
 * `insert` begins with an answer of the test's own, on the connection of the next statement alone.
 */
export async function lagging(server: Pick<Server, 'host' | 'port' | 'url'>): Promise<{
  url: string
  lag: () => void
  insert: (answer: Buffer) => void
  ended: () => number
}> {
  let allLag = false
  let toInsert: Buffer | undefined
  let ended = 0
  const proxy = createServer((client) => {
    const behind = connect(server.port, server.host)
    let last: Buffer = Buffer.alloc(0)
    let answer: Buffer = Buffer.alloc(0)
    let [executes, isLate] = [false, false]
    const lags = (): boolean => allLag || isLate
    const pass = (bytes: Buffer): void => {
      if (executes) last = answer
      executes = bytes[4] === EXECUTE || bytes[4] === QUERY
      answer = Buffer.alloc(0)
      if (executes && toInsert !== undefined) {
        ;[last, isLate] = [toInsert, true]
        toInsert = undefined
      }
      if (executes && lags()) client.write(last)
      behind.write(bytes)
    }
    client.on('error', () => undefined)
    client.on('data', (bytes) => {
      // The answer that it is to get may still be on its way.
      if (executes && lags() && answer.length === 0) behind.once('data', () => pass(bytes))
      else pass(bytes)
    })
    client.on('close', () => {
      ended += 1
      behind.destroy()
    })
    behind.on('error', () => undefined).on('close', () => client.destroy())
    behind.on('data', (bytes) => {
      answer = Buffer.concat([answer, bytes])
      if (!executes || !lags()) client.write(bytes)
    })
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const address = proxy.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const url = server.url.replace(`${server.host}:${server.port}`, `127.0.0.1:${port}`)
  return {
    url,
    lag: () => void (allLag = true),
    insert: (inserted) => void (toInsert = inserted),
    ended: () => ended,
  }
}
