import type { Address } from '../service.ts'
import { talk, type Parsed } from './talk.ts'

export type RedisReply = string | number | null | readonly RedisReply[]

type Words = readonly (string | number)[]

/** Sends one command on a connection of its own; an error reply rejects. Works with sentinels too. */
export function redisCommand(address: Address, ...words: Words): Promise<RedisReply> {
  return redisConversation(address, (ask) => ask(...words))
}

/** Several commands on one connection, which is closed at the end. */
export function redisConversation<T>(
  address: Address,
  converse: (ask: (...words: Words) => Promise<RedisReply>) => Promise<T>,
): Promise<T> {
  return talk(address, (line) =>
    converse(async (...words) => {
      line.send(encode(words))
      const { reply } = await line.read((received) => decode(received, 0))
      if (reply instanceof Error) throw reply
      return reply
    }),
  )
}

/** The text of `INFO section`, `CLUSTER INFO` and their like as pairs. */
export async function redisFields(
  address: Address,
  ...words: readonly string[]
): Promise<Map<string, string>> {
  const reply = await redisCommand(address, ...words)
  const pairs =
    typeof reply === 'string' ? reply.split('\r\n').map((line) => line.split(':', 2)) : pairUp(reply)
  return new Map(pairs.map(([key = '', value = '']) => [key, value]))
}

function pairUp(reply: RedisReply): string[][] {
  if (reply === null || typeof reply !== 'object') return []
  const words = reply.map(String)
  return words.flatMap((word, index) => (index % 2 === 0 ? [[word, words[index + 1] ?? '']] : []))
}

function encode(words: readonly (string | number)[]): string {
  const parts = words.map((word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`)
  return `*${words.length}\r\n${parts.join('')}`
}

// Wrapped, because a bare `null` reply must not look like "incomplete".
type Decoded = Parsed<{ readonly reply: RedisReply | Error }>

function decode(received: Buffer, start: number): Decoded | undefined {
  const end = received.indexOf('\r\n', start)
  if (end < 0) return undefined
  const head = received.toString('utf8', start + 1, end)
  const used = end + 2
  switch (received.toString('latin1', start, start + 1)) {
    case '+':
      return { value: { reply: head }, used }
    case '-':
      return { value: { reply: new Error(head) }, used }
    case ':':
      return { value: { reply: Number(head) }, used }
    case '$':
      return decodeBulk(received, used, Number(head))
    case '*':
      return decodeArray(received, used, Number(head))
    default:
      throw new Error(`not a Redis reply: ${JSON.stringify(received.toString('latin1', start, end))}`)
  }
}

function decodeBulk(received: Buffer, start: number, length: number): Decoded | undefined {
  if (length < 0) return { value: { reply: null }, used: start }
  if (received.length < start + length + 2) return undefined
  return { value: { reply: received.toString('utf8', start, start + length) }, used: start + length + 2 }
}

function decodeArray(received: Buffer, start: number, length: number): Decoded | undefined {
  if (length < 0) return { value: { reply: null }, used: start }
  const items: RedisReply[] = []
  let used = start
  for (let index = 0; index < length; index++) {
    const item = decode(received, used)
    if (item === undefined) return undefined
    if (item.value.reply instanceof Error) return item
    items.push(item.value.reply)
    used = item.used
  }
  return { value: { reply: items }, used }
}
