import type { Address } from '../service.ts'
import { frame, talk, type Line, type Parsed } from './talk.ts'

const createType = 1
const existsType = 3
const closeType = -11
const noNode = -101

/** One of the four-letter words: `ruok`, `srvr`, `mntr`, `cons` … */
export function fourLetterWord(address: Address, word: string): Promise<string> {
  return talk(address, (line) => {
    line.send(word)
    return line.rest()
  })
}

/** `standalone`, `leader` or `follower`; rejects while the server does not serve. */
export async function zookeeperMode(address: Address): Promise<string> {
  const report = await fourLetterWord(address, 'srvr')
  const mode = /^Mode: (\w+)$/m.exec(report)?.[1]
  if (mode === undefined) throw new Error(report.trim())
  return mode
}

/** Creates a persistent node with an open ACL, in its own session. */
export async function zookeeperCreate(address: Address, path: string): Promise<void> {
  const openAcl = Buffer.concat([int(1), int(31), text('world'), text('anyone')])
  const error = await inSession(address, createType, Buffer.concat([text(path), text(''), openAcl, int(0)]))
  if (error !== 0) throw new Error(`cannot create ${path}: error ${error}`)
}

export async function zookeeperExists(address: Address, path: string): Promise<boolean> {
  const error = await inSession(address, existsType, Buffer.concat([text(path), Buffer.from([0])]))
  if (error !== 0 && error !== noNode) throw new Error(`cannot look up ${path}: error ${error}`)
  return error === 0
}

function inSession(address: Address, type: number, body: Buffer): Promise<number> {
  return talk(address, async (line) => {
    const newSession = Buffer.concat([int(0), long(0), int(10_000), long(0), int(16), Buffer.alloc(16)])
    line.send(framed(newSession))
    await line.read(parseFrame)
    line.send(framed(Buffer.concat([int(1), int(type), body])))
    const reply = await line.read(parseFrame)
    await endSession(line)
    return reply.readInt32BE(12)
  })
}

// Left open, the session would stay until it times out and add a transaction at some later moment.
async function endSession(line: Line): Promise<void> {
  line.send(framed(Buffer.concat([int(2), int(closeType)])))
  await line.read(parseFrame)
}

function parseFrame(received: Buffer): Parsed<Buffer> | undefined {
  return received.length < 4 ? undefined : frame(received, 4, received.readInt32BE(0))
}

function framed(body: Buffer): Buffer {
  return Buffer.concat([int(body.length), body])
}

function int(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

function long(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(BigInt(value))
  return bytes
}

function text(value: string): Buffer {
  return Buffer.concat([int(Buffer.byteLength(value)), Buffer.from(value, 'utf8')])
}
