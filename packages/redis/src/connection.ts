import { shareListener } from '@locks/core/adapter'
import type { AdapterErrors, LockError } from '@locks/core/adapter'
import type { Redis } from 'ioredis'
import * as driver from './drivers/ioredis.ts'
import type { Argument, Client, Place } from './drivers/ioredis.ts'
import { failure } from './errors.ts'
import { Failovers } from './failovers.ts'
import { askChecked, callScript, keysOf, listOf } from './script.ts'
import type { Keys, Requests, Script } from './script.ts'

/** How a client and a Cluster report a lost connection. */
const BREAKS = ['close', '-node'] as const

/** Keys that one step of a search passes. */
const SCAN_PAGE = 1_000

/** One of the servers that accept writes. */
export interface Primary {
  readonly at: string
  readonly ask: (name: string, ...args: Argument[]) => Promise<unknown>
  readonly run: (script: Script, args: readonly Argument[]) => Promise<unknown>
}

type Read<T> = (reply: unknown) => T | Promise<T>

export interface ConnectionSettings extends Place {
  /** The user's client, which is never closed or reconfigured. */
  readonly client?: Client | undefined
  /** In front of every key, behind the key prefix of the client. */
  readonly prefix: string
  readonly waitForReplicasMs?: number
  /** Of the package that uses the connection. Default: those of `@locks/redis`. */
  readonly errors?: AdapterErrors
}

/** The commands of one client: how they reach the server that keeps a lock, and their replies. */
export class Connection {
  readonly client: Client
  readonly prefix: string
  /** Whether names, and so fences, are shared with Redisson. */
  readonly isShared: boolean
  readonly #owned: boolean
  readonly #silenceMs: number
  readonly #errors: AdapterErrors | undefined
  readonly #requests: Requests
  #failovers: Failovers | undefined
  #started = false
  readonly #onSwitch = new Set<() => void>()
  /** Of the present connection, or of the last try to make one. */
  #lastError: unknown
  /** Whether a script has run on the client. */
  #worked = false
  /** Why the server refuses the database, while it does. */
  #refusal: Error | undefined
  #breaks = 0
  #watchdog: NodeJS.Timeout | undefined
  readonly #stopCounting: readonly (() => void)[]

  /** Uses the user's client if there is one, otherwise its own. With `own` it always makes its own. */
  constructor(settings: ConnectionSettings, { own = false }: { readonly own?: boolean } = {}) {
    const { client, prefix, waitForReplicasMs = 0 } = settings
    this.#owned = client === undefined || own
    this.#silenceMs = driver.SILENCE_MS + (own ? waitForReplicasMs : 0)
    this.#errors = settings.errors
    this.client = client === undefined ? driver.open(settings) : own ? driver.copyOf(client) : client
    this.#requests = {
      send: (to, name, args) => this.#send(to, name, args),
      failed: (error) => this.#failed(error),
    }
    this.isShared = prefix === ''
    this.prefix = `${this.client.options.keyPrefix ?? ''}${prefix}`
    if (this.#owned) {
      this.client.on('error', (error: unknown) => this.#noticed(error))
      // A later outage may come without an error: an old one does not explain it.
      for (const event of ['connect', 'ready']) this.client.on(event, () => (this.#lastError = undefined))
      this.client.on('ready', () => (this.#refusal = undefined))
    }
    const count = (): void => void (this.#breaks += 1)
    this.#stopCounting = BREAKS.map((event) => shareListener(this.client, event, count))
  }

  /** Changes whenever a connection broke: ioredis may then have sent an executed command again. */
  get breaks(): number {
    return this.#breaks
  }

  /** Whether Sentinels can replace the server. */
  get replaceable(): boolean {
    return driver.behindSentinels(this.client) !== undefined
  }

  /** Whether the client leaves a primary as soon as Sentinels replace it. Undefined without Sentinels. */
  get leavesReplaced(): boolean | undefined {
    const behind = driver.behindSentinels(this.client)
    return behind && (this.#owned || behind.client.options.failoverDetector === true)
  }

  /** Calls `call` whenever Sentinels send clients to another primary. */
  onSwitch(call: () => void): void {
    this.#onSwitch.add(call)
  }

  get cluster(): boolean {
    return this.client.isCluster
  }

  /** The number of the database. */
  get db(): number {
    return driver.isCluster(this.client) ? 0 : (this.client.options.db ?? 0)
  }

  /** Resolves with what `read` makes of the reply. */
  run<T>(
    script: Script,
    keys: Keys,
    args: readonly Argument[],
    read: Read<T>,
    on: Client = this.client,
  ): Promise<T> {
    return callScript(on, script, keys, args, this.#noting(this.#unlessReplaced(read)), this.#requests)
  }

  /** A command whose reply decides nothing about a lock: it is not checked. */
  async call(name: string, ...args: Argument[]): Promise<unknown> {
    try {
      return await this.#send(this.client, name, args)
    } catch (error) {
      throw this.#failed(error)
    }
  }

  /** A command about `key` whose reply cannot name it. */
  async ask(key: string, name: string, ...args: Argument[]): Promise<unknown> {
    return this.#confirmed(await askChecked(this.client, name, args, this.#requests, keysOf([key])))
  }

  /**
   * Calls a script, and returns how many replicas have what it wrote. Undefined if a connection broke in between: WAIT
   * only counts what its own connection wrote.
   */
  async runAndWait<T>(
    script: Script,
    keys: Keys,
    args: readonly Argument[],
    read: Read<T>,
    wait: readonly [replicas: number, timeoutMs: number],
  ): Promise<{ readonly answer: T; readonly replicas: number | undefined }> {
    const node = await this.#nodeFor(keys[1] ?? '')
    const breaks = this.#breaks
    // One after the other: after a NOSCRIPT, WAIT would overtake the script.
    const answer = await this.run(script, keys, args, read, node)
    const count = Number(await this.#confirmed(await askChecked(node, 'wait', wait, this.#requests)))
    return { answer, replicas: this.#breaks === breaks ? count : undefined }
  }

  /** The connection for the commands of a key. A Cluster learns of a moved slot by asking; WAIT has no key. */
  async #nodeFor(key: string): Promise<Redis> {
    const { client } = this
    if (!driver.isCluster(client)) return client
    await this.call('exists', key)
    const node = driver.nodeOf(client, key)
    if (node === undefined) throw this.#failed(new Error('no connection to that slot'))
    return node
  }

  /** Every primary. With a key, only the one that has it must be in reach. */
  async primaries(key?: string): Promise<readonly Primary[]> {
    // A Cluster knows its nodes once any of them has replied.
    if (this.cluster) await (key === undefined ? this.call('ping') : this.call('exists', key))
    return driver.primariesOf(this.client).map((node) => ({
      at: driver.placeOf(node),
      ask: (name, ...args) => askChecked(node, name, args, this.#requests),
      run: (script, args) => this.run(script, keysOf([]), args, (reply) => reply, node),
    }))
  }

  /** The keys of each primary that pass a filter of SCAN, a page at a time. A key may come twice. */
  async *scan(...filter: string[]): AsyncGenerator<readonly [Primary, readonly string[]], void> {
    for (const primary of await this.primaries()) {
      let cursor = '0'
      do {
        const [next, keys] = listOf(await primary.ask('scan', cursor, 'COUNT', SCAN_PAGE, ...filter))
        cursor = String(next)
        yield [primary, listOf(keys).map(String)]
      } while (cursor !== '0')
    }
  }

  close(): void {
    clearInterval(this.#watchdog)
    for (const stop of this.#stopCounting) stop()
    this.#failovers?.close()
    if (this.#owned) this.client.disconnect()
  }

  #noting<T>(read: Read<T>): Read<T> {
    if (this.#worked) return read
    return (reply) => {
      this.#worked = true
      return read(reply)
    }
  }

  #unlessReplaced<T>(read: Read<T>): Read<T> {
    return this.replaceable ? async (reply) => read(await this.#confirmed(reply)) : read
  }

  /** The next primary may not know what a primary that is being replaced replied: nothing follows from it. */
  async #confirmed(reply: unknown): Promise<unknown> {
    const behind = driver.behindSentinels(this.client)
    if (behind === undefined) return reply
    const from = driver.addressOf(behind.client)
    // Read first what has arrived from the Sentinels, also after a pause of this process.
    await new Promise(setImmediate)
    while (this.#failovers?.looking !== undefined) await this.#failovers.looking
    if (this.#failovers?.underWay === true)
      throw this.#failed(new Error('the primary that replied is being replaced'))
    // The Sentinels were asked about the next connection then.
    if (driver.addressOf(behind.client) !== from)
      throw this.#failed(new Error('the connection ended before the Sentinels were asked about it'))
    return reply
  }

  #noticed(error: unknown): void {
    this.#lastError = error
    if (driver.isCluster(this.client) || !driver.refusesDatabase(error)) return
    // ioredis would go on in database 0, where the locks of other clients are not.
    this.#refusal = error
    driver.reconnect(this.client)
  }

  #failed(error: unknown): LockError {
    return failure(error, this.client, this.#lastError, this.#errors, !this.#owned, this.#worked)
  }

  #send(client: Client, name: string, args: readonly Argument[]): Promise<unknown> {
    if (!this.#started) this.#start()
    if (this.#refusal !== undefined) return Promise.reject(this.#refusal)
    if (this.#owned) driver.gather(client)
    return driver.send(client, name, args)
  }

  #start(): void {
    this.#started = true
    const { client } = this
    const behind = driver.behindSentinels(client)
    if (behind !== undefined)
      this.#failovers = new Failovers(behind.client, behind.name, () => {
        for (const call of this.#onSwitch) call()
        // The old primary would go on replying until a Sentinel demotes it, some ten seconds later.
        if (this.#owned) driver.reconnect(behind.client)
      })
    if (this.#owned) this.#watchdog = driver.watchForSilence(() => driver.nodesOf(client), this.#silenceMs)
  }
}
