import type { Address } from '../service.ts'
import { talk, type Line, type Parsed } from './talk.ts'

export interface PostgresLogin {
  readonly user: string
  readonly database: string
}

/** Runs SQL on a connection of its own; answers the last row's first column, `null` when there is no row. */
export function postgresQuery(
  address: Address,
  sql: string,
  { user, database }: PostgresLogin = { user: 'postgres', database: 'postgres' },
): Promise<string | null> {
  return talk(address, async (line) => {
    const parameters = ['user', user, 'database', database, ''].map((word) => `${word}\0`).join('')
    line.send(message('', `\0\x03\0\0${parameters}`))
    await untilReady(line)
    line.send(message('Q', `${sql}\0`))
    return await untilReady(line)
  })
}

interface Message {
  readonly type: string
  readonly body: Buffer
}

/** Reads up to ReadyForQuery and keeps the first column of the last DataRow on the way. */
async function untilReady(line: Line): Promise<string | null> {
  let cell: string | null = null
  for (;;) {
    const { type, body } = await line.read(parseMessage)
    if (type === 'Z') return cell
    if (type === 'E') throw new Error(describeError(body))
    if (type === 'R' && body.readInt32BE(0) !== 0) throw new Error('the server asks for a password')
    if (type === 'D') {
      const length = body.readInt32BE(2)
      cell = length < 0 ? null : body.toString('utf8', 6, 6 + length)
    }
  }
}

function parseMessage(received: Buffer): Parsed<Message> | undefined {
  if (received.length < 5) return undefined
  const used = 1 + received.readInt32BE(1)
  if (received.length < used) return undefined
  return { value: { type: received.toString('latin1', 0, 1), body: received.subarray(5, used) }, used }
}

function describeError(body: Buffer): string {
  const fields = new Map(
    body
      .toString('utf8')
      .split('\0')
      .map((field) => [field.slice(0, 1), field.slice(1)]),
  )
  return `${fields.get('C') ?? ''} ${fields.get('M') ?? ''}`.trim()
}

function message(type: string, body: string): Buffer {
  const content = Buffer.from(body, 'utf8')
  const length = Buffer.alloc(4)
  length.writeInt32BE(content.length + 4)
  return Buffer.concat([Buffer.from(type), length, content])
}
