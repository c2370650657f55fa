import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Server } from '../../../conformance/services/index.ts'

const READY = 'Z'.charCodeAt(0)

/** Whole answers, each of which ends with ReadyForQuery, and what is left of the next. */
function split(bytes: Buffer): { readonly answers: readonly Buffer[]; readonly rest: Buffer } {
  const answers: Buffer[] = []
  let [from, at] = [0, 0]
  while (at + 5 <= bytes.length) {
    const end = at + 1 + bytes.readUInt32BE(at + 1)
    if (end > bytes.length) break
    if (bytes[at] === READY) {
      answers.push(bytes.subarray(from, end))
      from = end
    }
    at = end
  }
  return { answers, rest: bytes.subarray(from) }
}

function message(type: string, body: string): Buffer {
  const head = Buffer.from(`${type}    `)
  head.writeUInt32BE(body.length + 4, 1)
  return Buffer.concat([head, Buffer.from(body)])
}

/** What the server says of a statement, parsed and run, that found no row. */
export const NO_ROW: Buffer = Buffer.concat([
  message('1', ''),
  message('2', ''),
  message('n', ''),
  message('C', 'UPDATE 0\0'),
  message('Z', 'I'),
])

/**
 * A proxy that can give the answer before to the next statement, and so on: each is one behind from then on. `insert`
 * begins with an answer of the test's own, on the connection of the next statement alone.
 */
export async function lagging(server: Pick<Server, 'host' | 'port'>): Promise<{
  readonly url: string
  readonly lag: () => void
  readonly insert: (answer: Buffer) => void
  readonly ended: () => number
}> {
  let allLag = false
  let toInsert: Buffer | undefined
  let ended = 0
  const proxy = createServer((client) => {
    const behind: Socket = connect(server.port, server.host)
    let last: Buffer = Buffer.alloc(0)
    let rest: Buffer = Buffer.alloc(0)
    let isLate = false
    client.on('error', () => undefined)
    client.on('data', (bytes) => {
      if (toInsert !== undefined) {
        ;[last, isLate] = [toInsert, true]
        toInsert = undefined
      }
      behind.write(bytes)
    })
    client.on('close', () => {
      ended += 1
      behind.destroy()
    })
    behind.on('error', () => undefined).on('close', () => client.destroy())
    behind.on('data', (bytes) => {
      const found = split(Buffer.concat([rest, bytes]))
      rest = Buffer.from(found.rest)
      for (const answer of found.answers) {
        client.write((allLag || isLate) && last.length > 0 ? last : answer)
        last = Buffer.from(answer)
      }
    })
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const address = proxy.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  return {
    url,
    lag: () => void (allLag = true),
    insert: (inserted) => void (toInsert = inserted),
    ended: () => ended,
  }
}
