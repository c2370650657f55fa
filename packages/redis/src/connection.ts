import type { AdapterErrors } from '@locks/core/adapter'
import type { Argument, Link, Route, Server } from './drivers/driver.ts'
import type { Client } from './drivers/given.ts'
import { SILENCE_MS } from './drivers/ioredis-clients.ts'
import type { Place } from './drivers/ioredis-clients.ts'
import * as driver from './drivers/ioredis.ts'
import { failure } from './errors.ts'
import { Failovers } from './failovers.ts'
import { askChecked, callScript, keysOf, listOf } from './script.ts'
import type { Keys, Requests, Script } from './script.ts'

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
  readonly link: Link
  readonly prefix: string
  /** Whether names, and so fences, are shared with Redisson. */
  readonly isShared: boolean
  readonly #owned: boolean
  readonly #requests: Requests
  #failovers: Failovers | undefined
  #started = false
  readonly #onSwitch = new Set<() => void>()
  /** Whether a script has run on the client. */
  #worked = false
  #breaks = 0
  readonly #stopCounting: () => void

  /** Uses the user's client if there is one, otherwise its own. With `own` it always makes its own. */
  constructor(settings: ConnectionSettings, { own = false }: { readonly own?: boolean } = {}) {
    const { client, prefix, waitForReplicasMs = 0 } = settings
    this.#owned = client === undefined || own
    const options = { silenceMs: SILENCE_MS + (own ? waitForReplicasMs : 0) }
    const given = client && driver.wrap(client)
    this.link = given === undefined ? driver.open(settings, options) : own ? given.copy(options) : given
    this.#requests = {
      link: this.link,
      failed: (error) => failure(error, this.link, settings.errors, this.#worked),
    }
    this.isShared = prefix === ''
    this.prefix = `${this.link.keyPrefix}${prefix}`
    this.#stopCounting = this.link.onBreak(() => (this.#breaks += 1))
  }

  /** Changes whenever a connection broke: an executed command may then have been sent again. */
  get breaks(): number {
    return this.#breaks
  }

  /** Whether Sentinels can replace the server. */
  get replaceable(): boolean {
    return this.link.sentinels !== undefined
  }

  /** Whether the client leaves a primary as soon as Sentinels replace it. Undefined without Sentinels. */
  get leavesReplaced(): boolean | undefined {
    return this.link.sentinels?.leaves
  }

  /** Calls `call` whenever Sentinels send clients to another primary. */
  onSwitch(call: () => void): void {
    this.#onSwitch.add(call)
  }

  get cluster(): boolean {
    return this.link.cluster
  }

  /** The number of the database. */
  get db(): number {
    return this.link.db
  }

  /** Resolves with what `read` makes of the reply. */
  run<T>(script: Script, keys: Keys, args: readonly Argument[], read: Read<T>, route?: Route): Promise<T> {
    return callScript(this.#ready(), script, keys, args, this.#noting(this.#unlessReplaced(read)), route)
  }

  /** A command whose reply decides nothing about a lock: it is not checked. */
  async call(name: string, ...args: Argument[]): Promise<unknown> {
    const { link, failed } = this.#ready()
    try {
      return await link.send(name, args, undefined)
    } catch (error) {
      throw failed(error)
    }
  }

  /** A command about `key` whose reply cannot name it. */
  async ask(key: string, name: string, ...args: Argument[]): Promise<unknown> {
    const requests = this.#ready()
    const breaks = this.#breaks
    const reply = await this.#confirmed(await askChecked(requests, name, args, key))
    // What checks the reply may have gone over the next connection, and says nothing about this one then.
    if (this.#breaks !== breaks)
      throw requests.failed(new Error('the connection broke before its reply was checked'))
    return reply
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
    const server = await this.#serverOf(keys[1] ?? '')
    const breaks = this.#breaks
    // One after the other: after a NOSCRIPT, WAIT would overtake the script.
    const answer = await this.run(script, keys, args, read, server)
    const count = Number(await this.#confirmed(await askChecked(this.#ready(), 'wait', wait, server)))
    return { answer, replicas: this.#breaks === breaks ? count : undefined }
  }

  /** A Cluster learns of a moved slot by asking about the key; WAIT has none. */
  async #serverOf(key: string): Promise<Server> {
    await this.#primaries(key)
    const server = this.link.placeOf(key)
    if (server === undefined) throw this.#requests.failed(new Error('no connection to that slot'))
    return server
  }

  /** Every primary. With a key, only the one that has it must be in reach. */
  async primaries(key?: string): Promise<readonly Primary[]> {
    return (await this.#primaries(key)).map((server) => ({
      at: server.at,
      ask: (name, ...args) => askChecked(this.#ready(), name, args, server),
      run: (script, args) => this.run(script, keysOf([]), args, (reply) => reply, server),
    }))
  }

  async #primaries(key?: string): Promise<readonly Server[]> {
    const { failed } = this.#ready()
    try {
      return await this.link.primaries(key)
    } catch (error) {
      throw failed(error)
    }
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
    this.#stopCounting()
    this.#failovers?.close()
    this.link.close()
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
    const { sentinels } = this.link
    if (sentinels === undefined) return reply
    const from = sentinels.at()
    // Read first what has arrived from the Sentinels, also after a pause of this process.
    await new Promise(setImmediate)
    while (this.#failovers?.looking !== undefined) await this.#failovers.looking
    if (this.#failovers?.underWay === true)
      throw this.#requests.failed(new Error('the primary that replied is being replaced'))
    // The Sentinels were asked about the next connection then.
    if (sentinels.at() !== from)
      throw this.#requests.failed(new Error('the connection ended before the Sentinels were asked about it'))
    return reply
  }

  #ready(): Requests {
    if (!this.#started) this.#start()
    return this.#requests
  }

  #start(): void {
    this.#started = true
    const { link } = this
    if (link.sentinels === undefined) return
    this.#failovers = new Failovers(link, link.sentinels, () => {
      for (const call of this.#onSwitch) call()
      // The old primary would go on replying until a Sentinel demotes it, some ten seconds later.
      if (this.#owned) link.reconnect()
    })
  }
}
