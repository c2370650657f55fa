import type { Server } from '../../../../conformance/services/index.ts'
import { postgresFrames } from '@locks/core/conformance'
import { startLaggingProxy } from '../../../sql/test/support/lagging-proxy.ts'
import type { LaggingProxy } from '../../../sql/test/support/lagging-proxy.ts'

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
    const replies = postgresFrames()
    let isLate = false
    client.on('data', (bytes) => {
      if (lag.insert !== undefined) {
        ;[last, isLate] = [lag.insert, true]
        lag.insert = undefined
      }
      behind.write(bytes)
    })
    behind.on('data', (bytes) => {
      for (const reply of replies(bytes)) {
        client.write((lag.all || isLate) && last.length > 0 ? last : reply)
        last = Buffer.from(reply)
      }
    })
  })
}
