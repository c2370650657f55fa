import { shareListener } from '@locks/core/adapter'
import type { AdapterErrors, LockError } from '@locks/core/adapter'
import type { Redis } from 'ioredis'
import { isCluster } from './client.ts'
import {
  copyOf,
  gather,
  nodeOf,
  nodesOf,
  open,
  placeOf,
  primariesOf,
  reconnect,
  send,
} from './drivers/ioredis.ts'
import type { Argument, Client, Place } from './drivers/ioredis.ts'
import { failure } from './errors.ts'
import { Failovers } from './failovers.ts'
import { listOf } from './replies.ts'
import { askChecked, callScript, keysOf } from './script-call.ts'
import type { Keys, Requests } from './script-call.ts'
import type { Script } from './script.ts'
import { SILENCE_MS, watchForSilence } from './silence.ts'

/** How a client and a Cluster report a lost connection. */
const BREAKS = ['close', '-node'] as const

/** Keys that one step of a search passes. */
const SCAN_PAGE = 1_000

/** One of the servers that accept writes. */
export interface Primary {
  readonly at: string
  readonly ask: (name: string, ...args: Argument[]) => Promise<unknown>
  readonly run: (script: Script, args: readonly Argument[]) => Promise<unknown>
  /** The keys of that server that pass a filter of SCAN, a page at a time. A key may come twice. */
  readonly scan: (...filter: string[]) => AsyncGenerator<readonly string[], void>
}

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
  #lastError: unknown
  #breaks = 0
  #watchdog: NodeJS.Timeout | undefined
  readonly #stopCounting: readonly (() => void)[]

  /** Uses the user's client if there is one, otherwise its own. With `own` it always makes its own. */
  constructor(settings: ConnectionSettings, { own = false }: { readonly own?: boolean } = {}) {
    const { client, prefix, waitForReplicasMs = 0 } = settings
    this.#owned = client === undefined || own
    this.#silenceMs = SILENCE_MS + (own ? waitForReplicasMs : 0)
    this.#errors = settings.errors
    this.client = client === undefined ? open(settings) : own ? copyOf(client) : client
    this.#requests = {
      send: (to, name, args) => this.#send(to, name, args),
      failed: (error) => this.#failed(error),
    }
    this.isShared = prefix === ''
    this.prefix = `${this.client.options.keyPrefix ?? ''}${prefix}`
    if (this.#owned) this.client.on('error', (error: unknown) => (this.#lastError = error))
    const count = (): void => void (this.#breaks += 1)
    this.#stopCounting = BREAKS.map((event) => shareListener(this.client, event, count))
  }

  /** Changes whenever a connection broke: ioredis may then have sent an executed command again. */
  get breaks(): number {
    return this.#breaks
  }

  /** Whether Sentinels are replacing the primary that this leads to. */
  get replaced(): boolean {
    return this.#failovers?.underWay ?? false
  }

  /** Whether the client leaves a primary as soon as Sentinels replace it. Undefined without Sentinels. */
  get leavesReplaced(): boolean | undefined {
    if (isCluster(this.client) || !this.client.options.sentinels) return undefined
    return this.#owned || this.client.options.failoverDetector === true
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
    return isCluster(this.client) ? 0 : (this.client.options.db ?? 0)
  }

  run<T>(
    script: Script,
    keys: Keys,
    args: readonly Argument[],
    read: (reply: unknown) => T | Promise<T>,
  ): Promise<T> {
    return this.#runOn(this.client, script, keys, args, read)
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
  ask(key: string, name: string, ...args: Argument[]): Promise<unknown> {
    return askChecked(this.client, name, args, this.#requests, keysOf([key]))
  }

  /**
   * Calls a script, and returns how many replicas have what it wrote. Undefined if a connection broke in between: WAIT
   * only counts what its own connection wrote.
   */
  async runAndWait(
    script: Script,
    keys: Keys,
    args: readonly Argument[],
    replicas: number,
    timeoutMs: number,
  ): Promise<{ readonly reply: unknown; readonly replicas: number | undefined }> {
    const node = await this.#nodeFor(keys.names[0] ?? '')
    const breaks = this.#breaks
    // One after the other: after a NOSCRIPT, WAIT would overtake the script.
    const reply = await this.#runOn(node, script, keys, args, (value) => value)
    const count = Number(await askChecked(node, 'wait', [replicas, timeoutMs], this.#requests))
    return { reply, replicas: this.#breaks === breaks ? count : undefined }
  }

  /** The connection for the commands of a key. A Cluster learns of a moved slot by asking; WAIT has no key. */
  async #nodeFor(key: string): Promise<Redis> {
    const { client } = this
    if (!isCluster(client)) return client
    await this.call('exists', key)
    const node = nodeOf(client, key)
    if (node === undefined) throw this.#failed(new Error('no connection to that slot'))
    return node
  }

  /** Every primary. With a key, only the one that has it must be in reach. */
  async primaries(key?: string): Promise<readonly Primary[]> {
    // A Cluster knows its nodes once any of them has replied.
    if (this.cluster) await (key === undefined ? this.call('ping') : this.call('exists', key))
    return primariesOf(this.client).map((node) => {
      const ask: Primary['ask'] = (name, ...args) => askChecked(node, name, args, this.#requests)
      return {
        at: placeOf(node),
        ask,
        run: (script, args) => this.#runOn(node, script, keysOf([]), args, (reply) => reply),
        scan: (...filter) => pagesOf(ask, filter),
      }
    })
  }

  close(): void {
    clearInterval(this.#watchdog)
    for (const stop of this.#stopCounting) stop()
    this.#failovers?.close()
    if (this.#owned) this.client.disconnect()
  }

  #runOn<T>(
    client: Client,
    script: Script,
    keys: Keys,
    args: readonly Argument[],
    read: (reply: unknown) => T | Promise<T>,
  ): Promise<T> {
    return callScript(client, script, keys, args, this.#unlessReplaced(read), this.#requests)
  }

  /** The next primary may not know what a primary that is being replaced replied: nothing follows from it. */
  #unlessReplaced<T>(read: (reply: unknown) => T | Promise<T>): (reply: unknown) => T | Promise<T> {
    if (isCluster(this.client) || !this.client.options.sentinels) return read
    return async (reply) => {
      // Read first what has arrived from the Sentinels, also after a pause of this process.
      await new Promise(setImmediate)
      while (this.#failovers?.looking !== undefined) await this.#failovers.looking
      if (this.replaced) throw this.#failed(new Error('the primary that replied is being replaced'))
      return read(reply)
    }
  }

  #failed(error: unknown): LockError {
    return failure(error, this.client, this.#lastError, this.#errors)
  }

  #send(client: Client, name: string, args: readonly Argument[]): Promise<unknown> {
    if (!this.#started) this.#start()
    if (this.#owned) gather(client)
    return send(client, name, args)
  }

  #start(): void {
    this.#started = true
    const { client } = this
    this.#failovers = failoversOf(client, () => {
      for (const call of this.#onSwitch) call()
      // The old primary would go on replying until a Sentinel demotes it, some ten seconds later.
      if (this.#owned && !isCluster(client)) reconnect(client)
    })
    if (this.#owned) this.#watchdog = watchForSilence(() => nodesOf(client), this.#silenceMs)
  }
}

async function* pagesOf(
  ask: Primary['ask'],
  filter: readonly string[],
): AsyncGenerator<readonly string[], void> {
  let cursor = '0'
  do {
    const [next, keys] = listOf(await ask('scan', cursor, 'COUNT', SCAN_PAGE, ...filter))
    cursor = String(next)
    yield listOf(keys).map(String)
  } while (cursor !== '0')
}

/** Of a client behind Sentinels. */
function failoversOf(client: Client, onSwitch: () => void): Failovers | undefined {
  if (isCluster(client)) return undefined
  const { sentinels, name } = client.options
  return sentinels && name ? new Failovers(client, name, onSwitch) : undefined
}
