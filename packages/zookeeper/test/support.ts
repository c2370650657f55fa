import { createClient, State } from 'node-zookeeper-client'

const slow = Number(process.env['LOCKS_TEST_SLOW'] ?? 1)

/** A duration, scaled for slow machines. */
export function ms(duration: number): number {
  return Math.ceil(duration * slow)
}

/** Asks until `probe` answers something other than undefined or false. */
export async function until<T>(
  what: string,
  withinMs: number,
  probe: () => Promise<T | undefined | false> | T | undefined | false,
): Promise<T> {
  const giveUpAt = performance.now() + ms(withinMs)
  for (;;) {
    const found = await probe()
    if (found !== undefined && found !== false) return found
    if (performance.now() > giveUpAt) throw new Error(`not within ${ms(withinMs)} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** The client library as it is, to look at and meddle with nodes. */
export interface RawClient extends AsyncDisposable {
  readonly sessionId: Buffer
  /** Undefined when there is no such node. */
  children(path: string): Promise<string[] | undefined>
  remove(path: string): Promise<void>
}

export async function rawClient(servers: string): Promise<RawClient> {
  const client = createClient(servers, { sessionTimeout: 10_000, spinDelay: 50 })
  client.connect()
  await until('a connection', 20_000, () => client.getState() === State.SYNC_CONNECTED)
  return {
    sessionId: client.getSessionId(),
    children: (path) =>
      new Promise((resolve, reject) => {
        client.getChildren(path, (error, children) => {
          if (error?.code === -101) resolve(undefined)
          else if (error) reject(error)
          else resolve(children)
        })
      }),
    remove: (path) =>
      new Promise((resolve, reject) => {
        client.remove(path, (error) => (error ? reject(error) : resolve()))
      }),
    async [Symbol.asyncDispose]() {
      client.close()
      await until('closed', 5_000, () => client.getState() === State.DISCONNECTED)
    },
  }
}
