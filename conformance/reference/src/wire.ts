import type { AcquireRequest, Grant, Handover, Renewal } from '@locks/core/adapter'
import type { Socket } from 'node:net'

/** What a client may ask. `hello` opens every connection; `cancel` ends the wait of that id. */
export type Call =
  | { readonly method: 'hello'; readonly args: readonly [clientId: string, connection: number] }
  | { readonly method: 'attempt' | 'withdraw'; readonly args: readonly [AcquireRequest] }
  | { readonly method: 'wait'; readonly args: readonly [AcquireRequest, maxMs: number] }
  | { readonly method: 'renew'; readonly args: readonly [readonly Renewal[]] }
  | { readonly method: 'release'; readonly args: readonly [Grant, keepMs?: number] }
  | { readonly method: 'adopt'; readonly args: readonly [Handover, AcquireRequest] }
  | { readonly method: 'inspect'; readonly args: readonly [name: string] }
  | { readonly method: 'cancel'; readonly args: readonly [id: number] }

export type Request = Call & { readonly id: number }

export interface Reply {
  readonly id: number
  /** The server's clock when it took the request. */
  readonly now: number
  readonly ok?: unknown
  readonly error?: string
}

const methods = new Set([
  'hello',
  'attempt',
  'withdraw',
  'wait',
  'renew',
  'release',
  'adopt',
  'inspect',
  'cancel',
])

/** One JSON value per line. Fences travel as decimal strings: a JSON number would round them. */
export function encode(message: Request | Reply): string {
  const bigintAsText = (_key: string, value: unknown): unknown =>
    typeof value === 'bigint' ? String(value) : value
  return `${JSON.stringify(message, bigintAsText)}\n`
}

function decode(line: string): unknown {
  const fenceAsBigint = (key: string, value: unknown): unknown =>
    key === 'fence' && typeof value === 'string' ? BigInt(value) : value
  return JSON.parse(line, fenceAsBigint)
}

/** Both ends are this package, so these tell a message from noise and leave its content alone. */
export function decodeRequest(line: string): Request {
  const value = decode(line)
  if (!isRequest(value)) throw new Error('not a request')
  return value
}

export function decodeReply(line: string): Reply {
  const value = decode(line)
  if (!isReply(value)) throw new Error('not a reply')
  return value
}

function isRequest(value: unknown): value is Request {
  if (!hasId(value) || !('method' in value) || !('args' in value)) return false
  return typeof value.method === 'string' && methods.has(value.method) && Array.isArray(value.args)
}

function isReply(value: unknown): value is Reply {
  return hasId(value) && 'now' in value && typeof value.now === 'number'
}

function hasId(value: unknown): value is { readonly id: number } {
  return typeof value === 'object' && value !== null && 'id' in value && typeof value.id === 'number'
}

/** Not `node:readline`: it also splits at U+2028, which JSON leaves as it is inside a lock name. */
export function onLines(socket: Socket, take: (line: string) => void): void {
  let rest = ''
  socket.setEncoding('utf8')
  socket.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) take(line)
  })
}
