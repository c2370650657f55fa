import { systemClock } from '@locks/core/adapter'
import { memory } from '@locks/memory'
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:net'
import { Session } from './session.ts'
import type { Sessions } from './session.ts'

// Serves one memory store on a free port of 127.0.0.1 and says which as one line of JSON. It ends
// with its standard input, so that it never outlives its parent.
const store = memory()({ clientId: randomUUID(), clock: systemClock, report: () => undefined })
const sessions: Sessions = new Map()
const server = createServer({ noDelay: true }, (socket) => new Session(socket, store, systemClock, sessions))

server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('listening on no TCP port')
  process.stdout.write(`${JSON.stringify({ port: address.port })}\n`)
})

process.on('SIGINT', () => undefined) // a terminal sends it to the whole group; the parent decides
process.on('SIGTERM', () => process.exit(0))
process.stdin.resume().once('close', () => process.exit(0))
