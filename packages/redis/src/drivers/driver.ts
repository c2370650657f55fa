// What the adapter asks of a client library: one module beside this one per library, and nothing else knows it.

export type Argument = string | number

export type Command = readonly [name: string, args: readonly Argument[]]

/** A server that accepts writes. */
export interface Server {
  /** `host:port` as the library connects to it: to tell servers apart, and for messages. */
  readonly at: string
}

/**
 * Where a command goes: to the server that has this key, to this server, or to any primary. Of a link to one server all
 * are the same.
 */
export type Route = string | Server | undefined

/** What an error means, without anything that a library attaches to it. */
export interface Failure {
  /**
   * Of Redis (`OOM`, `READONLY`) or of the system (`ECONNREFUSED`), or the name of the library's error. `REDIRECTIONS`:
   * the nodes of a Cluster sent a command to each other, or asked to try again, until the library gave up.
   */
  readonly code: string
  /** Without passwords. */
  readonly message: string
  /** The server refused the database that the connection is for. */
  readonly refusesDatabase: boolean
  /** One of several nodes of a Cluster said it. */
  readonly ofOneNode: boolean
  /**
   * The program has ended the client that it gave: no command will be sent again. Not of a client that gave up by
   * itself, which the program may connect again.
   */
  readonly ended: boolean
}

export interface Commands {
  /**
   * Connects when first called. Calls from before there is a connection leave in their order. Settles with the reply,
   * the error reply, or the reason why the connection ended or cannot be made. A command may be sent a second time only
   * if `onBreak` was called before it settles.
   *
   * Replies are those of RESP 2: texts, numbers or numerals, lists, null. Keys are final, and nothing of the defaults
   * of the program's client applies. Commands of one turn of the event loop leave in as few writes as possible. An own
   * link leaves a server that is READONLY, one to a single server also leaves one that says MOVED, and none ever works
   * in another database than the one it was given.
   */
  send(name: string, args: readonly Argument[], route: Route): Promise<unknown>
  /** Sends commands one right behind the other, on one connection. */
  together(commands: readonly Command[], route: Route): Promise<readonly PromiseSettledResult<unknown>[]>
  /** A reply came that belongs to another command: no later reply of that connection may be read. */
  distrust(route: Route, reason: Error): void
  failureOf(error: unknown): Failure
}

/** The commands of one client, the program's or an own one, and how to listen to the same servers. */
export interface Link extends Commands {
  readonly cluster: boolean
  /** In front of every key of the program's client. `send` does not add it. */
  readonly keyPrefix: string
  /** The number of the database, which the program may change. */
  readonly db: number
  /** Undefined without Sentinels. */
  readonly sentinels: Sentinels | undefined
  /** Every primary. With a key, only the one that has it must be in reach. */
  primaries(key?: string): Promise<readonly Server[]>
  /** Which server has a key or a sharded channel now; undefined while that is unknown. */
  placeOf(key: string): Server | undefined
  /** A connection of its own, shared with nothing, to a server that `placeOf` returned. */
  subscriber(place: Server, sharded: boolean, events: SubscriberEvents): SubscriberConnection
  /** Calls `call` whenever a connection was lost, until the returned function is called. */
  onBreak(call: () => void): () => void
  /** An own link to the same place with the same login, for what blocks its connection. */
  copy(options: OwnOptions): Link
  /** A command of the program's with the key prefix of its client in front of its keys. */
  prefixed(name: string, args: readonly string[]): Prefixed
  /** Leaves the present server for the one that the place leads to now. Own links only. */
  reconnect(): void
  /** Ends an own link, also while it connects, or stops using the program's client. What waits settles soon. */
  close(): void
}

/** The arguments of a command, and which of them are keys. */
export interface Prefixed {
  readonly args: readonly string[]
  readonly keys: readonly string[]
}

export interface OwnOptions {
  /** A connection whose oldest command is unanswered for longer than this is replaced. */
  readonly silenceMs: number
}

export interface SubscriberEvents {
  message(channel: string, text: string): void
  /** The connection ended, and its subscriptions with it. Comes before any message of the next connection. */
  lost(): void
  /** A subscription ended because its slot went to another server. */
  moved(): void
}

/** One connection in subscriber mode, which is replaced whenever it ends. */
export interface SubscriberConnection {
  /**
   * Resolves with true once the server has confirmed it, with false if the server refuses, or redirects the client.
   * Runs over any number of connections until one of both, or `close`. What was confirmed is not repeated after `lost`.
   */
  subscribe(channel: string): Promise<boolean>
  unsubscribe(channel: string): void
  reconnect(): void
  close(): void
}

/** The Sentinels that a link asks for its primary. */
export interface Sentinels {
  /** By which they know the primary. */
  readonly name: string
  /** Whether the link leaves a primary as soon as Sentinels replace it. */
  readonly leaves: boolean
  all(): readonly Sentinel[]
  /** `host:port` of the server at the other end of the link; undefined when not connected. */
  at(): string | undefined
  /** The present connection of the link, each of which is another object; undefined before the first. */
  connection(): object | undefined
  /** The address of a server as the link has to connect to it. */
  mapped(address: string | undefined): string | undefined
  /** Calls `call` whenever the link has connected, until the returned function is called. */
  onConnect(call: () => void): () => void
}

export interface Sentinel {
  /** With `answerMs` it is for a few commands, each of which fails after that long. */
  connect(answerMs?: number): SentinelConnection
}

export interface SentinelConnection {
  ask(name: string, ...args: string[]): Promise<unknown>
  /** Subscribes on every connection. `ready` is called for each: what was published meanwhile is not repeated. */
  listen(
    channels: readonly string[],
    received: (channel: string, text: string) => void,
    ready: () => void,
  ): void
  close(): void
}
