import type { LockError } from '@locks/core/adapter'
import { createHash, randomBytes } from 'node:crypto'
import type { Argument, Commands, Route } from './drivers/driver.ts'

/** A Lua script and the hash it is called by. */
export interface Script {
  readonly text: string
  readonly sha: string
}

/**
 * Redis pairs replies with commands by their order alone. So the last argument of every call names that call, and the
 * reply begins with that name: `callScript` notices a reply to another call. The body of a script does not see that
 * argument; it returns a text or a list. Error replies stay as they are, since they are never an outcome.
 */
export function script(body: string): Script {
  // A text costs Redis half of what a list does.
  const text = `
local call = table.remove(ARGV)
local function answer()
${body}
end
local reply = answer()
local kind = type(reply)
if kind == 'string' or kind == 'number' then return call .. reply end
if kind == 'table' and reply.err then return reply end
return { call, reply }
`
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/** Keys of a script as they stand in a call: how many there are, and their names. */
export type Keys = readonly [count: string, ...names: string[]]

export function keysOf(names: readonly string[]): Keys {
  return [String(names.length), ...names]
}

/** How commands are sent, and what their failures become. */
export interface Requests {
  readonly link: Commands
  readonly failed: (error: unknown) => LockError
}

/** A reply that belongs to another command. What the server did is unknown. */
class MisdirectedReply extends Error {
  override readonly name: string = 'MisdirectedReply'
}

const ours = randomBytes(6).toString('base64url')
let calls = 0

/** No other call of any client has this name, nor a name that begins with it. */
function nextCall(): string {
  calls += 1
  return `${ours}${calls.toString(36)};`
}

/**
 * Calls a script by its hash, or by its text if the server does not know it. Resolves with what `read` makes of its
 * answer. One promise behind that of the command and no async function: at thousands of calls a second they count.
 */
export function callScript<T>(
  { link, failed }: Requests,
  called: Script,
  keys: Keys,
  args: readonly Argument[],
  read: (answer: unknown) => T | Promise<T>,
  route: Route = keys[1],
  by: 'sha' | 'text' = 'sha',
): Promise<T> {
  const call = nextCall()
  const command = by === 'sha' ? 'evalsha' : 'eval'
  return link.send(command, [called[by], ...keys, ...args, call], route).then(
    (reply) => {
      const answer = answerIn(reply, call)
      if (answer === MISDIRECTED) throw failed(misdirected(link, route))
      return read(answer)
    },
    (error: unknown) => {
      if (by === 'text' || link.failureOf(error).code !== 'NOSCRIPT') throw failed(error)
      return callScript({ link, failed }, called, keys, args, read, route, 'text')
    },
  )
}

const ECHO = 'return ARGV[1]'

/**
 * Follows a command whose reply cannot name it with one whose reply can: where a reply is missing or one too many, the
 * second one is answered wrongly too.
 */
export async function askChecked(
  { link, failed }: Requests,
  name: string,
  args: readonly Argument[],
  route: Route,
): Promise<unknown> {
  const call = nextCall()
  const keys = keysOf(typeof route === 'string' ? [route] : [])
  const both = [
    [name, args],
    ['eval', [ECHO, ...keys, call]],
  ] as const
  const [reply, echo] = await link.together(both, route)
  if (echo?.status === 'rejected') throw failed(echo.reason)
  if (echo?.value !== call) throw failed(misdirected(link, route))
  if (reply?.status === 'rejected') throw failed(reply.reason)
  return reply?.value
}

const MISDIRECTED = Symbol('a reply to another command')

/** What the script answered, if the reply is to that call; see `script`. */
function answerIn(reply: unknown, call: string): unknown {
  if (typeof reply === 'string') return reply.startsWith(call) ? reply.slice(call.length) : MISDIRECTED
  return Array.isArray(reply) && reply[0] === call ? reply[1] : MISDIRECTED
}

/** No later reply on that connection can be trusted. */
function misdirected(link: Commands, route: Route): MisdirectedReply {
  const error = new MisdirectedReply(
    'a reply belongs to another command, so the outcome is unknown; the connection was closed',
  )
  link.distrust(route, error)
  return error
}

export function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : []
}

/** The user's client may be configured to return numbers as strings. */
export function isOne(reply: unknown): boolean {
  return Number(reply) === 1
}
