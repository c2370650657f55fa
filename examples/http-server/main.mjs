import { isLockError, openLocks } from '@locks/core'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

// POST /orders/42/payment is handled for one client at a time, across all server processes.
const locks = await openLocks(process.env['LOCKS_URL'] ?? 'file:locks', { waitMs: 2_000 })
const paymentMs = Number(process.env['PAYMENT_MS'] ?? 100)

const server = createServer((request, response) => {
  const [, order] = /^\/orders\/([\w-]{1,64})\/payment$/.exec(request.url ?? '') ?? []
  if (request.method !== 'POST' || order === undefined) return reply(response, 404, 'no such order')
  const gone = new AbortController()
  response.once('close', () => gone.abort(new Error('the client has gone')))
  void handle(order, response, gone.signal)
})

/**
 * @param {string} order
 * @param {import('node:http').ServerResponse} response
 * @param {AbortSignal} gone
 */
async function handle(order, response, gone) {
  try {
    const fence = await locks.with(`order:${order}`, { signal: gone }, (lease) => pay(lease))
    reply(response, 200, `paid under fence ${fence}`)
  } catch (error) {
    if (gone.aborted) return
    if (isLockError(error, 'LOCK_TIMEOUT')) reply(response, 409, 'another request is paying this order')
    else if (isLockError(error)) reply(response, 503, 'try again later')
    else reply(response, 500, 'the payment failed')
  }
}

/** @param {import('@locks/core').Lease} lease */
async function pay(lease) {
  console.log(`paying under fence ${lease.fence}`)
  await sleep(paymentMs, undefined, { signal: lease.signal }) // the bank; aborts when the lock is lost
  lease.assertHeld()
  return lease.fence
}

/**
 * @param {import('node:http').ServerResponse} response
 * @param {number} status
 * @param {string} text
 */
function reply(response, status, text) {
  if (status === 503) response.setHeader('retry-after', '1')
  // A keep-alive connection would delay a server that is closing.
  if (!server.listening) response.setHeader('connection', 'close')
  response.writeHead(status, { 'content-type': 'text/plain' }).end(`${text}\n`)
}

process.once('SIGTERM', () => {
  // Running requests finish and release their locks first; only then can the client close.
  server.close(() => void locks.close().then(() => console.log('closed')))
  server.closeIdleConnections()
})

server.listen(Number(process.env['PORT'] ?? 8080), '127.0.0.1', () => {
  const address = server.address()
  console.log(`listening on http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`)
})
