import { shareListener } from '@locks/core/adapter'
import type { Command, Redis } from 'ioredis'
import type {
  Argument,
  Command as Request,
  Failure,
  Link,
  OwnOptions,
  Prefixed,
  Route,
  Sentinels,
  Server,
  SubscriberConnection,
  SubscriberEvents,
} from './driver.ts'
import type { Client } from './given.ts'
import {
  codeOf,
  copyOf,
  databaseOf,
  isCluster,
  openClient,
  reconnect,
  strays,
  watchForSilence,
} from './ioredis-clients.ts'
import type { Library, Place } from './ioredis-clients.ts'
import { sentinelsOf } from './ioredis-sentinels.ts'
import { IoredisSubscriber } from './ioredis-subscriber.ts'
import { slotOf } from './slots.ts'

/** How a client and a Cluster report a lost connection. */
const BREAKS = ['close', '-node'] as const

/** An own link, which connects when first used. */
export function open(place: Place, options: OwnOptions, library?: Library): IoredisLink {
  return new IoredisLink(openClient(place, library), options)
}

/** A link over the program's client. */
export function wrap(client: Client): IoredisLink {
  return new IoredisLink(client)
}

class IoredisServer implements Server {
  readonly at: string
  readonly client: Redis

  constructor(client: Redis) {
    const { host, port } = client.options
    this.client = client
    this.at = `${host}:${port}`
  }
}

/** The commands of one client of ioredis. */
export class IoredisLink implements Link {
  readonly sentinels: Sentinels | undefined
  readonly #client: Client
  readonly #Command: typeof Command
  /** Undefined for the program's client. */
  readonly #own: OwnOptions | undefined
  /** Of a client that is no Cluster. */
  readonly #server: Server | undefined
  #watchdog: NodeJS.Timeout | undefined
  /** Of the present connection, or of the last try to make one. */
  #lastError: unknown
  /** Why the server refuses the database, while it does. */
  #refusal: Error | undefined

  constructor(client: Client, own?: OwnOptions) {
    this.#client = client
    this.#Command = commandsOf(client)
    this.#own = own
    this.sentinels = sentinelsOf(client, own !== undefined)
    if (!isCluster(client)) this.#server = new IoredisServer(client)
    if (own === undefined) return
    client.on('error', (error: unknown) => this.#noticed(error))
    // A later outage may come without an error: an old one does not explain it.
    for (const event of ['connect', 'ready']) client.on(event, () => (this.#lastError = undefined))
    client.on('ready', () => (this.#refusal = undefined))
  }

  get cluster(): boolean {
    return this.#client.isCluster
  }

  get keyPrefix(): string {
    return this.#client.options.keyPrefix ?? ''
  }

  get db(): number {
    return isCluster(this.#client) ? 0 : databaseOf(this.#client)
  }

  /**
   * Only ioredis may write to its connections, since it pairs replies with commands by the order of its writes. It
   * finds the server of a key by itself.
   */
  send(name: string, args: readonly Argument[], route: Route): Promise<unknown> {
    const client = route instanceof IoredisServer ? route.client : this.#client
    if (this.#own !== undefined) {
      if (this.#refusal !== undefined) return Promise.reject(this.#refusal)
      this.#watchdog ??= watchForSilence(() => nodesOf(this.#client), this.#own.silenceMs)
      gather(client)
    } else if (!isCluster(client) && strays(client))
      return Promise.reject(new Error('the given client has not selected its database again yet'))
    const command = new this.#Command(name, [], { replyEncoding: 'utf8' })
    // The constructor would copy them twice more, which costs as much as everything else it does.
    command.args = args.map(String)
    client.sendCommand(command, untilReady(client))
    return command.promise
  }

  together(commands: readonly Request[], route: Route): Promise<readonly PromiseSettledResult<unknown>[]> {
    return Promise.allSettled(commands.map(([name, args]) => this.send(name, args, route)))
  }

  /** On a Cluster any connection may have delivered the reply to a command that no server was named for. */
  distrust(route: Route, reason: Error): void {
    const nodes = nodesOf(route instanceof IoredisServer ? route.client : this.#client)
    for (const node of nodes) if (node.status === 'ready') node.stream.destroy(reason)
  }

  async primaries(key?: string): Promise<readonly Server[]> {
    if (!isCluster(this.#client)) return this.#server === undefined ? [] : [this.#server]
    // A Cluster knows its nodes once any of them has replied.
    await (key === undefined ? this.send('ping', [], undefined) : this.send('exists', [key], key))
    return this.#client.nodes('master').map((node) => new IoredisServer(node))
  }

  placeOf(key: string): Server | undefined {
    const client = this.#client
    if (!isCluster(client)) return this.#server
    const owner = client.slots[slotOf(key)]?.[0]
    return client
      .nodes('master')
      .map((node) => new IoredisServer(node))
      .find(({ at }) => at === owner)
  }

  subscriber(place: Server, sharded: boolean, events: SubscriberEvents): SubscriberConnection {
    if (!(place instanceof IoredisServer)) throw new TypeError('a server of another link')
    return new IoredisSubscriber(place.client, sharded, events)
  }

  onBreak(call: () => void): () => void {
    const stops = BREAKS.map((event) => shareListener(this.#client, event, call))
    return () => {
      for (const stop of stops) stop()
    }
  }

  copy(options: OwnOptions): IoredisLink {
    return new IoredisLink(copyOf(this.#client), options)
  }

  reconnect(): void {
    if (!isCluster(this.#client)) reconnect(this.#client)
  }

  failureOf(error: unknown): Failure {
    // While the database is refused, 5 rejects with what became of its handshake.
    const reason = this.#refusal ?? this.#reasonOf(error)
    const text = reason instanceof Error ? reason.message : 'unknown error'
    const message = passwordsOf(this.#client).reduce(
      (shown, password) => shown.replaceAll(password, '***'),
      text,
    )
    return {
      code: codeOf(reason),
      message,
      refusesDatabase: refusesDatabase(reason),
      ofOneNode: nodeErrorIn(error) !== undefined,
      ended: this.#own === undefined && wasEnded(this.#client),
    }
  }

  prefixed(name: string, args: readonly string[]): Prefixed {
    const { keyPrefix } = this
    // 5.3 knows the keys of commands in small letters alone.
    const command = new this.#Command(name.toLowerCase(), [...args], keyPrefix === '' ? {} : { keyPrefix })
    return { args: command.args.map(String), keys: command.getKeys().map(String) }
  }

  close(): void {
    clearInterval(this.#watchdog)
    if (this.#own !== undefined) this.#client.disconnect()
  }

  /** Where ioredis gave up, the last error of the connection says why. A Cluster says what its last node replied. */
  #reasonOf(error: unknown): unknown {
    if (codeOf(error) === 'MaxRetriesPerRequestError') return this.#lastError ?? error
    return nodeErrorIn(error) ?? error
  }

  #noticed(error: unknown): void {
    this.#lastError = error
    if (isCluster(this.#client) || !refusesDatabase(error)) return
    // ioredis would go on in database 0, where the locks of other clients are not.
    this.#refusal = error
    reconnect(this.#client)
  }
}

/**
 * The class of commands in the copy of ioredis that made the client: a client of 6 throws on a command of 5. The method
 * `call` of the client makes one, and passes it to the object that it is called on.
 */
function commandsOf(client: Client): typeof Command {
  const catcher = { options: {}, sendCommand: (command: unknown) => command }
  const call: unknown = Reflect.get(client, 'call')
  const made: unknown = typeof call === 'function' ? Reflect.apply(call, catcher, ['get', 'key']) : undefined
  const found: unknown = typeof made === 'object' && made !== null ? made.constructor : undefined
  if (!isCommandClass(found)) throw new TypeError('this client of ioredis makes no commands')
  return found
}

function isCommandClass(value: unknown): value is typeof Command {
  return typeof value === 'function'
}

/** So many commands leave at once, so that the server begins while this side goes on. */
const MAX_COMMANDS = 16

/** How many commands each stream holds back. */
const gathering = new WeakMap<Redis['stream'], number>()

/**
 * Call before sending on our own client: commands of one turn of the event loop leave together. The stream itself
 * holds them back, so that everything ioredis writes, its handshake too, stays in order.
 */
function gather(client: Client): void {
  if (isCluster(client) || client.status !== 'ready') return
  const { stream } = client
  const held = gathering.get(stream)
  if (held === undefined) {
    stream.cork()
    gathering.set(stream, 1)
    process.nextTick(flush, stream)
  } else if (held < MAX_COMMANDS) gathering.set(stream, held + 1)
  else {
    stream.uncork()
    stream.cork()
    gathering.set(stream, 1)
  }
}

function flush(stream: Redis['stream']): void {
  gathering.delete(stream)
  stream.uncork()
}

/**
 * Of the commands that a server answers while it loads its data, ioredis writes some during the handshake. If the
 * connection ends before it is ready, they never settle. With a stream to write to, a command waits like the others.
 */
function untilReady(client: Client): Parameters<Redis['sendCommand']>[1] {
  if (isCluster(client) || client.status !== 'connect') return undefined
  return {
    isPipeline: true,
    write: (data: string | Buffer) => client.stream.write(data),
    destination: { redis: client },
  }
}

/** The connections of a client. */
function nodesOf(client: Client): readonly Redis[] {
  return isCluster(client) ? client.nodes('all') : [client]
}

/** What must never be shown. Each node of a Cluster may have its own. */
function passwordsOf(client: Client): readonly string[] {
  const all = isCluster(client)
    ? [client.options.redisOptions, ...nodesOf(client).map(({ options }) => options)]
    : [client.options]
  return all
    .flatMap((options) => [
      options?.password,
      options && 'sentinelPassword' in options ? options.sentinelPassword : undefined,
    ])
    .filter((password) => typeof password === 'string')
    .filter((password) => password !== '')
}

/** What the last node of a Cluster replied, where ioredis gave up. */
function nodeErrorIn(error: unknown): unknown {
  return error instanceof Error && 'lastNodeError' in error ? (error.lastNodeError ?? undefined) : undefined
}

/** Whether the program ended the client. Others at their end gave up by themselves, and may be connected again. */
function wasEnded(client: Client): boolean {
  if (client.status !== 'end') return false
  // ioredis has no public word for it.
  if (Reflect.get(client, 'manuallyClosing') === true) return true
  if (isCluster(client)) return false
  const { retryStrategy, sentinels } = client.options
  const gaveUp = typeof retryStrategy !== 'function' || Reflect.get(client, 'retryAttempts') !== 0
  // It has no stream yet if no Sentinel has named a primary.
  return !gaveUp && (!sentinels || Reflect.get(client, 'stream') !== undefined)
}

/** Whether the server refused to change to the database that a connection is for. */
function refusesDatabase(error: unknown): error is Error {
  if (codeOf(error) === 'NOAUTH' || !(error instanceof Error) || !('command' in error)) return false
  const { command } = error
  return typeof command === 'object' && command !== null && 'name' in command && command.name === 'select'
}
