import { shareListener } from '@locks/core/adapter'
import type { Clock } from '@locks/core/adapter'
import { State } from 'node-zookeeper-client'
import type { Client, ConnectionManager } from 'node-zookeeper-client'
import type { Address } from './four-letter-words.ts'

type Connect = Parameters<ConnectionManager['findNextServer']>[0]

/** The library's words for a connection manager that has no connection, or is about to finish, or finished. */
const DISCONNECTED = 0
const CLOSING = -1
const CLOSED = -2

/** Leaves room for what other users of a given client queue at once. */
const LAST_XID = 2 ** 31 - 100_000

/** Why the last connection failed, of clients made here. The library keeps it to itself. */
const failures = new WeakMap<Client, Error>()

/** A client that was closed before does not say so again. */
const MAX_DROPS = 20

/**
 * Until what is returned is called: a reply that was cut with its connection is forgotten, which the
 * library fails to do. It would garble all that the next connection says.
 */
export function forgetCutReplies({ connectionManager: manager }: Client): () => void {
  return shareListener(manager, 'state', () => {
    if (manager.state === DISCONNECTED) manager.pendingBuffer = null
  })
}

/**
 * Calls `call` when a client is closed by its user, until what is returned is called. The server frees
 * everything at once then, and the library's client says nothing of it.
 */
export function onClosing({ connectionManager: manager }: Client, call: () => void): () => void {
  return shareListener(manager, 'state', () => {
    if (isClosing(manager)) call()
  })
}

function isClosing({ state }: ConnectionManager): boolean {
  return state === CLOSING || state === CLOSED
}

/**
 * The library's connection, where it cannot be relied on: beside replies that were cut, an error
 * code it does not know ends the process.
 */
export function harden(client: Client): void {
  forgetCutReplies(client)
  const { connectionManager: manager } = client
  const connected = manager.onSocketConnected.bind(manager)
  const data = manager.onSocketData.bind(manager)
  const failed = manager.onSocketError.bind(manager)
  manager.onSocketError = (error) => {
    failures.set(client, error)
    failed(error)
  }
  manager.onSocketConnected = () => {
    failures.delete(client)
    // Core keeps the process alive while somebody waits; a silent server must not.
    manager.socket?.unref()
    connected()
  }
  manager.findNextServer = (connect) => findNextServer(manager, connect)
  manager.onSocketData = (bytes) => {
    try {
      data(bytes)
    } catch {
      manager.socket?.destroy()
    }
  }
}

/** As the library does it: all servers in turn, with a pause after each round; but nothing here keeps a process alive. */
function findNextServer(manager: ConnectionManager, connect: Connect): void {
  const { servers, spinDelay } = manager
  const paused = manager.serverAttempts >= servers.length
  manager.serverAttempts = paused ? 0 : manager.serverAttempts + 1
  if (paused) setTimeout(next, Math.random() * spinDelay).unref()
  else process.nextTick(next)

  function next(): void {
    const server = servers[manager.nextServerIndex++ % servers.length]
    if (server === undefined) return
    connect(server)
    manager.socket?.unref()
    manager.connectTimeoutHandler?.unref()
  }
}

/**
 * The same client, but one that sends a request once. Sent again by the library, a creation whose
 * answer was lost would make a second node, at a time when nobody reckons with it any more.
 */
export function withoutRetries(client: Client): Client {
  if (client.options.retries === 0) return client
  const options = { ...client.options, retries: 0 }
  return new Proxy(client, {
    get: (target, key): unknown => (key === 'options' ? options : Reflect.get(target, key)),
  })
}

/** Whether the session of a client is known to be over, or was ended by its user. */
export function isOver(client: Client): boolean {
  const state = client.getState()
  return state === State.EXPIRED || state === State.AUTH_FAILED || isClosing(client.connectionManager)
}

/** Why a client has no connection, if that is known. */
export function failureOf(client: Client): Error | undefined {
  return failures.get(client)
}

/** The server that a client is connected to. */
export function addressOf({ connectionManager }: Client): Address | undefined {
  const { remoteAddress: host, remotePort: port } = connectionManager.socket ?? {}
  return host === undefined || port === undefined ? undefined : { host, port }
}

/** Ends the present connection, not the session. The library does not notice by itself that a server is silent. */
export function dropConnection({ connectionManager: manager }: Client): void {
  // The library forgets it, and it would then end the next connection.
  if (manager.connectTimeoutHandler) clearTimeout(manager.connectTimeoutHandler)
  manager.socket?.destroy()
}

/**
 * The library numbers its requests by a signed number of 32 bits, and can send nothing any more beyond the last.
 * Replies are compared with the oldest request that is not answered, so numbers may start again.
 */
export function limitRequestNumbers({ connectionManager }: Client): void {
  if (connectionManager.xid > LAST_XID) connectionManager.xid = 1
}

/** Takes a watcher back, here and not at the server. */
export function unwatch({ connectionManager }: Client, path: string, watcher: () => void): void {
  const { dataWatchers } = connectionManager.watcherManager
  const watched = dataWatchers[path]?.off('notification', watcher)
  if (watched?.listenerCount('notification') === 0) Reflect.deleteProperty(dataWatchers, path)
}

/** Ends a session, at the server too if that listens, and the connection in any case. */
export function stop(client: Client, clock: Clock, patienceMs = 500): Promise<void> {
  const { connectionManager: manager } = client
  return new Promise((resolve) => {
    let drops = 0
    let timer = clock.timer(patienceMs, insist)
    timer.keepAlive(true)
    manager.on('state', onState)
    // Before its first socket exists the library cannot be closed.
    if (manager.socket === undefined) setImmediate(() => client.close())
    else client.close()

    function onState(state: unknown): void {
      if (state === CLOSED) finish()
    }
    // A reconnection that was under way brings one more socket.
    function insist(): void {
      dropConnection(client)
      if (++drops > MAX_DROPS) return finish()
      timer = clock.timer(50, insist)
      timer.keepAlive(true)
    }
    function finish(): void {
      timer.cancel()
      manager.off('state', onState)
      resolve()
    }
  })
}

/**
 * Ends a session that is believed lost. Should the server still know it, its nodes stand in
 * everybody's way: so it is closed as soon as there is a connection, or given up after `boundMs`,
 * or when `closing` says so.
 */
export async function retire(
  client: Client,
  clock: Clock,
  boundMs: number,
  closing: AbortSignal,
): Promise<void> {
  if (isOver(client)) return
  if (client.getState() === State.SYNC_CONNECTED) return stop(client, clock)
  const state = await new Promise<State>((resolve) => {
    const timer = clock.timer(boundMs, giveUp)
    closing.addEventListener('abort', giveUp)
    client.on('state', onState)

    function onState(now: State): void {
      if (now !== State.DISCONNECTED) decide(now)
    }
    function giveUp(): void {
      decide(State.DISCONNECTED)
    }
    function decide(outcome: State): void {
      timer.cancel()
      closing.removeEventListener('abort', giveUp)
      client.off('state', onState)
      resolve(outcome)
    }
  })
  if (state === State.SYNC_CONNECTED) return stop(client, clock)
  if (state === State.DISCONNECTED) return stop(client, clock, 0)
}
