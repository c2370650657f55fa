import { ACL, createClient, CreateMode, State } from 'node-zookeeper-client'
import type { Client, Exception, Stat } from 'node-zookeeper-client'
import { eventually, judgeFailure } from '@locks/core/conformance'
import { expect } from 'vitest'

const noNode = -101

const slow = Number(process.env['LOCKS_TEST_SLOW'] ?? 1)

/** A duration, scaled for slow machines. */
export function ms(duration: number): number {
  return Math.ceil(duration * slow)
}

/** Lets a duration pass. To wait for a condition, use `until`. */
export function pass(duration: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms(duration)))
}

export { eventually as until } from '@locks/core/conformance'

/** Jeopardy, more than once if a connection came and went, and then lost: of a hold that lasts `ttlMs` without a sign. */
export async function expectLoss(states: readonly string[], since: number, ttlMs: number): Promise<void> {
  // A process that stood still from before the one until after the other learns of the loss alone.
  if (states.join(' ') === 'lost') throw await judgeFailure(new Error('lost without jeopardy'), since, ttlMs)
  expect(states.join(' ')).toMatch(/^(jeopardy )+lost$/)
}

/** The client library without this package, to read and change nodes. */
export interface RawClient extends AsyncDisposable {
  readonly client: Client
  /** Undefined when there is no such node. */
  children(path: string): Promise<string[] | undefined>
  stat(path: string): Promise<Stat | null>
  data(path: string): Promise<string>
  createDirectory(path: string): Promise<string>
  createMember(prefix: string): Promise<string>
  remove(path: string): Promise<void>
}

/** The session of another client, to continue it. */
export interface SessionOf {
  readonly sessionId: Buffer
  readonly sessionPassword: Buffer
}

export async function rawClient(
  servers: string,
  options: Partial<SessionOf> & { readonly retries?: number; readonly sessionTimeout?: number } = {},
): Promise<RawClient> {
  const client = createClient(servers, { sessionTimeout: 10_000, spinDelay: 50, ...options })
  client.connect()
  await eventually('a connection', 20_000, () => client.getState() === State.SYNC_CONNECTED)
  const call = <T>(send: (done: (error: Exception | null, value: T) => void) => void): Promise<T> =>
    new Promise((resolve, reject) => send((error, value) => (error ? reject(error) : resolve(value))))
  const create = (path: string, mode: number): Promise<string> =>
    call((done) => client.create(path, Buffer.alloc(0), ACL.OPEN_ACL_UNSAFE, mode, done))
  return {
    client,
    children: (path) =>
      call((done) =>
        client.getChildren(path, (error, children) => {
          if (error?.code === noNode) done(null, undefined)
          else done(error, children)
        }),
      ),
    stat: (path) => call((done) => client.exists(path, done)),
    data: (path) => call((done) => client.getData(path, (error, data) => done(error, String(data)))),
    createDirectory: (path) => create(path, CreateMode.PERSISTENT),
    createMember: (prefix) => create(prefix, CreateMode.EPHEMERAL_SEQUENTIAL),
    remove: (path) => call((done) => client.remove(path, -1, (error) => done(error, undefined))),
    async [Symbol.asyncDispose]() {
      if (client.getState() !== State.SYNC_CONNECTED) return
      const closed = new Promise((resolve) => client.once('disconnected', resolve))
      client.close()
      // An ensemble on a busy machine was seen to leave the connection open. The session ends all the same.
      await Promise.race([closed, pass(5_000)])
    },
  }
}
