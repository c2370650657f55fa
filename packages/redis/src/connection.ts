import { shareListener } from '@locks/core/adapter'
import type { LockError } from '@locks/core/adapter'
import { Cluster, Command, Redis } from 'ioredis'
import { isCluster } from './client.ts'
import { codeOf, failure } from './errors.ts'
import { Failovers } from './failovers.ts'
import { gather } from './gather.ts'
import { loosen } from './loosen.ts'
import type { RedisSettings } from './options.ts'
import { askChecked, callScript, keysOf, send } from './script-call.ts'
import type { Argument, Keys, Means } from './script-call.ts'
import type { Script } from './script.ts'
import { SILENCE_MS, watchForSilence } from './silence.ts'

/** For connections of our own: found broken within seconds, and tried again soon. */
export const ownOptions = {
  lazyConnect: true,
  connectTimeout: 3_000,
  // One Sentinel that hangs would else keep the others from being asked.
  sentinelCommandTimeout: 3_000,
  keepAlive: 10_000,
  maxRetriesPerRequest: 2,
  retryStrategy: (times: number): number => Math.min(20 * 2 ** Math.min(times, 10), 1_000),
  // After a failover the old primary still answers, but only reads.
  reconnectOnError: (error: Error): boolean => codeOf(error) === 'READONLY',
} as const

/** How a client and a Cluster tell of a lost connection. */
const BREAKS = ['close', '-node'] as const

/** One of the servers that may be written to. */
export interface Primary {
  readonly at: string
  readonly ask: (name: string, ...args: Argument[]) => Promise<unknown>
  readonly run: (script: Script, args: readonly Argument[]) => Promise<unknown>
}

/** The commands of one client: how scripts get to the server that keeps a lock, and back. */
export class Connection {
  readonly client: Redis | Cluster
  readonly prefix: string
  /** Whether names, and so fences, are those of Redisson. */
  readonly isShared: boolean
  /** Made here, and so closed here. */
  readonly owned: boolean
  readonly #silenceMs: number
  readonly #means: Means
  #failovers: Failovers | undefined
  #started = false
  readonly #onSwitch = new Set<() => void>()
  #lastError: unknown
  #breaks = 0
  #watchdog: NodeJS.Timeout | undefined
  readonly #stopCounting: readonly (() => void)[]

  /** The user's client where there is one, or an own one; with `own`, always an own one. */
  constructor(settings: RedisSettings, { own = false }: { readonly own?: boolean } = {}) {
    const { client } = settings
    this.owned = client === undefined || own
    this.#silenceMs = SILENCE_MS + (own ? settings.waitForReplicasMs : 0)
    this.client = client === undefined ? open(settings) : own ? copyOf(client) : client
    this.#means = {
      by: (to, name, args) => this.#send(to, name, args),
      failed: (error) => this.#failed(error),
    }
    this.isShared = settings.prefix === ''
    this.prefix = `${this.client.options.keyPrefix ?? ''}${settings.prefix}`
    if (this.owned) this.client.on('error', (error: unknown) => (this.#lastError = error))
    if (this.owned) loosen(this.client)
    const count = (): void => void (this.#breaks += 1)
    this.#stopCounting = BREAKS.map((event) => shareListener(this.client, event, count))
  }

  /** Changes whenever a connection broke: ioredis may then have sent again what had been executed already. */
  get breaks(): number {
    return this.#breaks
  }

  /** Whether Sentinels are replacing the primary that this leads to. */
  get replaced(): boolean {
    return this.#failovers?.underWay ?? false
  }

  /** Calls `call` whenever Sentinels send clients to another primary. */
  onSwitch(call: () => void): void {
    this.#onSwitch.add(call)
  }

  get cluster(): boolean {
    return this.client.isCluster
  }

  run<T>(
    script: Script,
    keys: Keys,
    args: readonly Argument[],
    read: (reply: unknown) => T | Promise<T>,
  ): Promise<T> {
    return this.#runOn(this.client, script, keys, args, read)
  }

  /**
   * Calls a script, and answers how many replicas have what it wrote. Undefined when a connection
   * broke in between: WAIT speaks of what its own connection wrote, and of nothing else.
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
    // One after the other: a NOSCRIPT would let WAIT overtake the script.
    const reply = await this.#runOn(node, script, keys, args, (value) => value)
    const count = Number(await askChecked(node, 'wait', [replicas, timeoutMs], this.#means))
    return { reply, replicas: this.#breaks === breaks ? count : undefined }
  }

  /**
   * The connection that a key's commands go through. A Cluster finds out where that is by asking, and only
   * so learns that a slot has moved: WAIT has no key, and would go anywhere.
   */
  async #nodeFor(key: string): Promise<Redis> {
    const { client } = this
    if (!isCluster(client)) return client
    await this.#ask(client, 'exists', [key])
    const node = this.nodeOf(key)
    if (node === undefined) throw failure(new Error('no connection to that slot'), client)
    return node
  }

  /** Every primary: where it is, and how to ask that one. With a key, only the one that has it must be in reach. */
  async primaries(key?: string): Promise<readonly Primary[]> {
    const { client } = this
    // A Cluster knows its nodes once any of them has answered something.
    if (isCluster(client))
      await (key === undefined ? this.#ask(client, 'ping', []) : this.#ask(client, 'exists', [key]))
    const nodes = isCluster(client) ? client.nodes('master') : [client]
    return nodes.map((node) => ({
      at: `${node.options.host}:${node.options.port}`,
      ask: (name, ...args) => askChecked(node, name, args, this.#means),
      run: (script, args) => this.#runOn(node, script, keysOf([]), args, (reply) => reply),
    }))
  }

  /** On a Cluster, the connection to the primary that has the key at present. */
  nodeOf(key: string): Redis | undefined {
    const { client } = this
    if (!isCluster(client)) return undefined
    const owner = client.slots[slotOf(key)]?.[0]
    return client.nodes('master').find(({ options }) => `${options.host}:${options.port}` === owner)
  }

  close(): void {
    clearInterval(this.#watchdog)
    for (const stop of this.#stopCounting) stop()
    this.#failovers?.close()
    if (this.owned) this.client.disconnect()
  }

  #runOn<T>(
    client: Redis | Cluster,
    script: Script,
    keys: Keys,
    args: readonly Argument[],
    read: (reply: unknown) => T | Promise<T>,
  ): Promise<T> {
    return callScript(client, script, keys, args, this.#unlessReplaced(read), this.#means)
  }

  /** What a primary says that is being replaced may be unknown to the next one: nothing follows from it. */
  #unlessReplaced<T>(read: (reply: unknown) => T | Promise<T>): (reply: unknown) => T | Promise<T> {
    if (isCluster(this.client) || !this.client.options.sentinels) return read
    return async (reply) => {
      // What has arrived from the Sentinels meanwhile is read first, also after this process stood still.
      await new Promise(setImmediate)
      while (this.#failovers?.looking !== undefined) await this.#failovers.looking
      if (this.replaced) throw this.#failed(new Error('the primary that answered is being replaced'))
      return read(reply)
    }
  }

  #ask(client: Redis | Cluster, name: string, args: Argument[]): Promise<unknown> {
    return this.#send(client, name, args).catch((error: unknown) => {
      throw this.#failed(error)
    })
  }

  #failed(error: unknown): LockError {
    return failure(error, this.client, this.#lastError)
  }

  #send(client: Redis | Cluster, name: string, args: Argument[]): Promise<unknown> {
    if (!this.#started) this.#start()
    if (this.owned) gather(client)
    return send(client, name, args)
  }

  #start(): void {
    this.#started = true
    const { client } = this
    this.#failovers = failoversOf(client, () => {
      for (const call of this.#onSwitch) call()
      // The old primary would go on answering until a Sentinel demotes it, some ten seconds later.
      if (!this.owned || isCluster(client)) return
      if (isOpen(client)) client.stream.destroy()
      // It may be on its way to the old one.
      else client.once('connect', () => client.stream.destroy())
    })
    if (!this.owned) return
    const connections = (): readonly Redis[] => (isCluster(client) ? client.nodes('all') : [client])
    this.#watchdog = watchForSilence(connections, this.#silenceMs)
  }
}

/** A client that is asking Sentinels for its primary must not be disconnected: ioredis would not connect again. */
export function isOpen({ status }: Redis): boolean {
  return status === 'connect' || status === 'ready'
}

/** Of a client behind Sentinels. */
function failoversOf(client: Redis | Cluster, onSwitch: () => void): Failovers | undefined {
  if (isCluster(client)) return undefined
  const { sentinels, name } = client.options
  return sentinels && name ? new Failovers(client, name, onSwitch) : undefined
}

export function slotOf(key: string): number {
  return Number(new Command('get', [key]).getSlot())
}

function open({ connection, cluster }: RedisSettings): Redis | Cluster {
  const forced = { lazyConnect: true, replyMapping: 'legacy' } as const
  if (cluster === undefined) return new Redis({ ...ownOptions, ...connection, ...forced })
  return new Cluster([...cluster.nodes], {
    // It asks any one node whether all is well, and for ever if that one hangs.
    enableReadyCheck: false,
    ...cluster.options,
    lazyConnect: true,
    redisOptions: { ...ownOptions, ...cluster.options?.redisOptions, ...forced },
  })
}

function copyOf(client: Redis | Cluster): Redis | Cluster {
  return isCluster(client) ? client.duplicate() : client.duplicate({ lazyConnect: true })
}
