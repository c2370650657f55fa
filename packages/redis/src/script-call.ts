import type { LockError } from '@locks/core/adapter'
import { randomBytes } from 'node:crypto'
import { Command } from 'ioredis'
import type { Cluster, Redis } from 'ioredis'
import { isCluster } from './client.ts'
import { codeOf } from './errors.ts'
import type { Script } from './script.ts'

export type Argument = string | number

/** Keys of a script, as they stand in a call: the same lock is asked for again and again. */
export interface Keys {
  readonly names: readonly string[]
  /** How many they are, and their names. */
  readonly args: readonly Argument[]
}

export function keysOf(names: readonly string[]): Keys {
  return { names, args: [String(names.length), ...names] }
}

/** Sends one command; the caller may have to do something before that. */
export type Send = (client: Redis | Cluster, name: string, args: Argument[]) => Promise<unknown>

/**
 * Through ioredis, which alone may write to its connections: it pairs replies with commands in the order of its
 * writes. Past its key prefix, which is part of our keys already, and would also stand before a token's name.
 */
export const send: Send = (client, name, args) => {
  const command = new Command(name, [], { replyEncoding: 'utf8' })
  // Given to the constructor they would be copied twice more, which costs as much as all the rest of it.
  command.args = args.map(String)
  client.sendCommand(command)
  return command.promise
}

/** How commands are sent, and what their failures become. */
export interface Means {
  readonly by: Send
  readonly failed: (error: unknown) => LockError
}

/** A reply came that belongs to another command. What the server did is unknown. */
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
 * Calls a script by its hash, or by its text where the server does not know it (any more). Resolves with what `read`
 * makes of its answer. One promise behind that of the command, and no async function: at thousands of calls a second
 * they count.
 */
export function callScript<T>(
  client: Redis | Cluster,
  script: Script,
  keys: Keys,
  args: readonly Argument[],
  read: (answer: unknown) => T | Promise<T>,
  { by, failed }: Means,
): Promise<T> {
  const call = nextCall()
  return by(client, 'evalsha', [script.sha, ...keys.args, ...args, call]).then(
    (reply) => {
      const answer = answerIn(reply, call)
      if (answer === MISDIRECTED) throw failed(misdirected(client))
      return read(answer)
    },
    (error: unknown) => {
      if (codeOf(error) !== 'NOSCRIPT') throw failed(error)
      return callText(client, script, keys, args, { by, failed }).then(read)
    },
  )
}

async function callText(
  client: Redis | Cluster,
  script: Script,
  keys: Keys,
  args: readonly Argument[],
  { by, failed }: Means,
): Promise<unknown> {
  const call = nextCall()
  const reply = await by(client, 'eval', [script.text, ...keys.args, ...args, call]).catch(
    (error: unknown) => {
      throw failed(error)
    },
  )
  const answer = answerIn(reply, call)
  if (answer === MISDIRECTED) throw failed(misdirected(client))
  return answer
}

const ECHO = 'return ARGV[1]'

/**
 * A command whose reply cannot name it is followed at once by one whose reply can: where a reply is missing or one too
 * many, that one is not answered rightly either.
 */
export async function askChecked(
  node: Redis,
  name: string,
  args: Argument[],
  { by, failed }: Means,
): Promise<unknown> {
  const call = nextCall()
  const [reply, echo] = await Promise.allSettled([by(node, name, args), by(node, 'eval', [ECHO, 0, call])])
  if (echo.status === 'rejected') throw failed(echo.reason)
  if (echo.value !== call) throw failed(misdirected(node))
  if (reply.status === 'rejected') throw failed(reply.reason)
  return reply.value
}

const MISDIRECTED = Symbol('a reply to another command')

/** What the script answered, if the reply is to that call; see `script`. */
function answerIn(reply: unknown, call: string): unknown {
  if (typeof reply === 'string') return reply.startsWith(call) ? reply.slice(call.length) : MISDIRECTED
  return Array.isArray(reply) && reply[0] === call ? reply[1] : MISDIRECTED
}

/**
 * Nothing that still arrives on that connection can be trusted, so it is closed, and ioredis makes a new one. Of a
 * Cluster that is every connection: which of them answered is not known.
 */
function misdirected(client: Redis | Cluster): MisdirectedReply {
  const error = new MisdirectedReply(
    'a reply belongs to another command, so nothing is known about the outcome; the connection was closed',
  )
  const nodes = isCluster(client) ? client.nodes('all') : [client]
  for (const node of nodes) if (node.status === 'ready') node.stream.destroy(error)
  return error
}
