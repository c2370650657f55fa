// The resource: one process that keeps the stock. It does not use locks, but it remembers the
// highest fence it has seen and refuses a write with a lower one.
import { isLockError, memoryGuard } from '@locks/core'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'

let left = 0
const guard = memoryGuard()

/**
 * @param {import('node:http').IncomingMessage} request
 * @param {import('node:http').ServerResponse} response
 */
async function answer(request, response) {
  try {
    await serve(request)
    response.end(JSON.stringify({ left }))
  } catch (error) {
    response.statusCode = isLockError(error, 'LOCK_LOST') ? 409 : 500
    response.end(JSON.stringify({ refused: error instanceof Error ? error.message : String(error) }))
  }
}

/** @param {import('node:http').IncomingMessage} request */
async function serve(request) {
  const fence = new URL(request.url ?? '/', 'http://warehouse').searchParams.get('fence')
  if (request.method === 'GET') {
    if (fence !== null) await guard.register(BigInt(fence))
    return
  }
  const wanted = Number(await text(request))
  const write = () => void (left = wanted)
  if (fence === null) write()
  else await guard.run(BigInt(fence), write)
}

const server = createServer((request, response) => void answer(request, response))
// The connection of a paused shop must stay open.
server.keepAliveTimeout = 120_000
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (address !== null && typeof address !== 'string') process.send?.({ news: 'ready', port: address.port })
})

process.on('SIGINT', () => undefined) // a terminal sends it to the whole group; the demo decides
process.on('disconnect', () => process.exit())
