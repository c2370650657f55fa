import { shareListener, Wake } from '@locks/core/adapter'
import type { Clock } from '@locks/core/adapter'
import { State } from 'node-zookeeper-client'
import type { Client, ConnectionManager } from 'node-zookeeper-client'
import type { Address } from './four-letter-words.ts'

type Connect = Parameters<ConnectionManager['findNextServer']>[0]

/** The library's states of a connection manager. */
const DISCONNECTED = 0
const CLOSING = -1
const CLOSED = -2

/** Leaves room for what other users of a given client send at once. */
const LAST_XID = 2 ** 31 - 100_000

/** Why the last connection of our own clients failed, which the library does not expose. */
const failures = new WeakMap<Client, Error>()

/** Give up after so many: a client that was closed before emits no event. */
const MAX_DROPS = 20

/**
 * Discards a reply that was cut off with its connection, which the library fails to do: it would corrupt the replies of
 * the next connection. Returns how to stop.
 */
export function forgetCutReplies({ connectionManager: manager }: Client): () => void {
  return shareListener(manager, 'state', () => {
    if (manager.state === DISCONNECTED) manager.pendingBuffer = null
  })
}

/**
 * Calls `call` when the user closes the client. The server then frees everything at once, and the library emits no
 * event. Returns how to stop.
 */
export function onClosing({ connectionManager: manager }: Client, call: () => void): () => void {
  return shareListener(manager, 'state', () => {
    if (isClosing(manager)) call()
  })
}

function isClosing({ state }: ConnectionManager): boolean {
  return state === CLOSING || state === CLOSED
}

/** Repairs the library's connection: cut replies, timers that keep a process alive, unknown error codes that end it. */
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
    // Core keeps the process alive while a call is pending; a silent server must not.
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

/** As in the library: all servers in turn, with a pause after each round; but it does not keep the process alive. */
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
 * The same client, but it sends each request once. If the library repeated a creation whose answer was lost, a second
 * node would appear, after the attempt has ended.
 */
export function withoutRetries(client: Client): Client {
  if (client.options.retries === 0) return client
  const options = { ...client.options, retries: 0 }
  return new Proxy(client, {
    get: (target, key): unknown => (key === 'options' ? options : Reflect.get(target, key)),
  })
}

/** Whether the session of a client is over, or was closed by its user. */
export function isOver(client: Client): boolean {
  const state = client.getState()
  return state === State.EXPIRED || state === State.AUTH_FAILED || isClosing(client.connectionManager)
}

/** Why a client has no connection, if known. */
export function failureOf(client: Client): Error | undefined {
  return failures.get(client)
}

/** The server that a client is connected to. */
export function addressOf({ connectionManager }: Client): Address | undefined {
  const { remoteAddress: host, remotePort: port } = connectionManager.socket ?? {}
  return host === undefined || port === undefined ? undefined : { host, port }
}

/** Ends the connection, not the session: the library does not notice that a server is silent. */
export function dropConnection({ connectionManager: manager }: Client): void {
  // The library does not cancel it, and it would end the next connection.
  if (manager.connectTimeoutHandler) clearTimeout(manager.connectTimeoutHandler)
  manager.socket?.destroy()
}

/**
 * The library numbers requests with a signed 32-bit number and cannot send anything beyond the last. Numbers may start
 * again, since a reply is compared only with the oldest pending request.
 */
export function limitRequestNumbers({ connectionManager }: Client): void {
  if (connectionManager.xid > LAST_XID) connectionManager.xid = 1
}

/** Removes a watcher in this process, not at the server. */
export function unwatch({ connectionManager }: Client, path: string, watcher: () => void): void {
  const { dataWatchers } = connectionManager.watcherManager
  const watched = dataWatchers[path]?.off('notification', watcher)
  if (watched?.listenerCount('notification') === 0) Reflect.deleteProperty(dataWatchers, path)
}

/** Ends a session, at the server too if that answers, and the connection in any case. */
export async function stop(client: Client, clock: Clock, patienceMs = 500): Promise<void> {
  const { connectionManager: manager } = client
  const wake = new Wake(clock)
  const onState = (state: unknown): void => {
    if (state === CLOSED) wake.wake()
  }
  manager.on('state', onState)
  // The library cannot be closed before its first socket exists.
  if (manager.socket === undefined) setImmediate(() => client.close())
  else client.close()
  let sleepMs = patienceMs
  // More than once: a pending reconnection brings one more socket.
  for (let drops = 0; drops <= MAX_DROPS; drops += 1) {
    if ((await wake.sleep(sleepMs, { keepAlive: true })) === 'woken') break
    dropConnection(client)
    sleepMs = 50
  }
  manager.off('state', onState)
}

/**
 * Ends a session that we gave up. If the server still has it, its nodes block others: so it is closed as soon as there
 * is a connection, or dropped after `boundMs` or when `closing` aborts.
 */
export async function retire(
  client: Client,
  clock: Clock,
  boundMs: number,
  closing: AbortSignal,
): Promise<void> {
  if (isOver(client)) return
  const wake = new Wake(clock)
  const onState = (state: State): void => {
    if (state !== State.DISCONNECTED) wake.wake()
  }
  client.on('state', onState)
  if (client.getState() === State.DISCONNECTED) await wake.sleep(boundMs, { signal: closing })
  client.off('state', onState)
  if (isOver(client)) return
  return stop(client, clock, client.getState() === State.SYNC_CONNECTED ? undefined : 0)
}
