import type { Address } from '../service.ts'
import { frame, talk, type Line, type Parsed } from './talk.ts'

const protocol41 = 0x200
const withDatabase = 0x8
const secureConnection = 0x8000
const pluginAuth = 0x80000

export interface MariadbLogin {
  readonly user: string
  readonly database: string
}

/** Runs one statement on a connection of its own, without a password; answers the first row's first column. */
export function mariadbQuery(
  address: Address,
  sql: string,
  { user, database }: MariadbLogin = { user: 'locks', database: 'locks' },
): Promise<string | null> {
  return talk(address, async (line) => {
    const greeting = await readPacket(line)
    line.send(packet(greeting.sequence + 1, loginRequest(user, database)))
    await readPacket(line)
    line.send(packet(0, Buffer.concat([Buffer.from([0x03]), Buffer.from(sql, 'utf8')])))
    const head = await readPacket(line)
    if (head.body[0] === 0x00) return null
    await untilEndMarker(line)
    const row = await readPacket(line)
    return isEndMarker(row.body) ? null : firstCell(row.body)
  })
}

interface Packet {
  readonly sequence: number
  readonly body: Buffer
}

async function readPacket(line: Line): Promise<Packet> {
  const found = await line.read(parsePacket)
  if (found.body[0] !== 0xff) return found
  // An error sent before the login ("too many connections") carries no SQL state.
  const text = found.body.toString('utf8', found.body[3] === 0x23 ? 9 : 3)
  throw new Error(`${found.body.readUInt16LE(1)} ${text}`)
}

function parsePacket(received: Buffer): Parsed<Packet> | undefined {
  if (received.length < 4) return undefined
  const body = frame(received, 4, received.readUIntLE(0, 3))
  return body && { value: { sequence: received.readUInt8(3), body: body.value }, used: body.used }
}

function packet(sequence: number, body: Buffer): Buffer {
  const head = Buffer.alloc(4)
  head.writeUIntLE(body.length, 0, 3)
  head.writeUInt8(sequence, 3)
  return Buffer.concat([head, body])
}

function loginRequest(user: string, database: string): Buffer {
  const fixed = Buffer.alloc(32)
  fixed.writeUInt32LE(protocol41 | withDatabase | secureConnection | pluginAuth, 0)
  fixed.writeUInt32LE(0x1000000, 4)
  fixed.writeUInt8(45, 8) // utf8mb4
  const noPassword = '\0'
  return Buffer.concat([
    fixed,
    Buffer.from(`${user}\0${noPassword}${database}\0mysql_native_password\0`, 'utf8'),
  ])
}

async function untilEndMarker(line: Line): Promise<void> {
  for (;;) {
    if (isEndMarker((await readPacket(line)).body)) return
  }
}

function isEndMarker(body: Buffer): boolean {
  return body[0] === 0xfe && body.length < 9
}

function firstCell(row: Buffer): string | null {
  const length = row.readUInt8(0)
  if (length === 0xfb) return null
  if (length > 0xfb) throw new Error('this small client reads no cell above 250 bytes')
  return row.toString('utf8', 1, 1 + length)
}
