import type { Server } from '../../../../conformance/services/index.ts'
import { startLaggingProxy } from '../../../sql/test/support/lagging-proxy.ts'
import type { LaggingProxy } from '../../../sql/test/support/lagging-proxy.ts'

const READY = 'Z'.charCodeAt(0)

/** Whole replies, each of which ends with ReadyForQuery, and the beginning of the next. */
function split(bytes: Buffer): { readonly replies: readonly Buffer[]; readonly rest: Buffer } {
  const replies: Buffer[] = []
  let [from, at] = [0, 0]
  while (at + 5 <= bytes.length) {
    const end = at + 1 + bytes.readUInt32BE(at + 1)
    if (end > bytes.length) break
    if (bytes[at] === READY) {
      replies.push(bytes.subarray(from, end))
      from = end
    }
    at = end
  }
  return { replies, rest: bytes.subarray(from) }
}

function message(type: string, body: string): Buffer {
  const head = Buffer.from(`${type}    `)
  head.writeUInt32BE(body.length + 4, 1)
  return Buffer.concat([head, Buffer.from(body)])
}

/** The server's reply to a statement that found no row. */
export const NO_ROW: Buffer = Buffer.concat([
  message('1', ''),
  message('2', ''),
  message('n', ''),
  message('C', 'UPDATE 0\0'),
  message('Z', 'I'),
])

export function lagging(server: Server): Promise<LaggingProxy> {
  return startLaggingProxy(server, (client, behind, lag) => {
    let last: Buffer = Buffer.alloc(0)
    let rest: Buffer = Buffer.alloc(0)
    let isLate = false
    client.on('data', (bytes) => {
      if (lag.insert !== undefined) {
        ;[last, isLate] = [lag.insert, true]
        lag.insert = undefined
      }
      behind.write(bytes)
    })
    behind.on('data', (bytes) => {
      const found = split(Buffer.concat([rest, bytes]))
      rest = Buffer.from(found.rest)
      for (const reply of found.replies) {
        client.write((lag.all || isLate) && last.length > 0 ? last : reply)
        last = Buffer.from(reply)
      }
    })
  })
}
