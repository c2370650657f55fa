import type { Server } from '../../../../conformance/services/index.ts'
import { startLaggingProxy } from '../../../sql/test/support/lagging-proxy.ts'
import type { LaggingProxy } from '../../../sql/test/support/lagging-proxy.ts'

const [QUERY, EXECUTE] = [0x03, 0x17]

/** The server's reply to a statement that changed nothing. */
export const NOTHING_CHANGED: Buffer = Buffer.from('0700000100000002000000', 'hex')

/** The server's reply to a statement that it rolled back because of a deadlock. */
export const DEADLOCK: Buffer = Buffer.from('11000001ffbd04233430303031646561646c6f636b', 'hex')

/** A reply is what arrives between two statements. */
export function lagging(server: Server): Promise<LaggingProxy> {
  return startLaggingProxy(server, (client, behind, lag) => {
    let last: Buffer = Buffer.alloc(0)
    let reply: Buffer = Buffer.alloc(0)
    let [executes, isLate] = [false, false]
    const lags = (): boolean => lag.all || isLate
    const pass = (bytes: Buffer): void => {
      if (executes) last = reply
      executes = bytes[4] === EXECUTE || bytes[4] === QUERY
      reply = Buffer.alloc(0)
      if (executes && lag.insert !== undefined) {
        ;[last, isLate] = [lag.insert, true]
        lag.insert = undefined
      }
      if (executes && lags()) client.write(last)
      behind.write(bytes)
    }
    client.on('data', (bytes) => {
      // The reply that it is to get may still be on its way.
      if (executes && lags() && reply.length === 0) behind.once('data', () => pass(bytes))
      else pass(bytes)
    })
    behind.on('data', (bytes) => {
      reply = Buffer.concat([reply, bytes])
      if (!executes || !lags()) client.write(bytes)
    })
  })
}
