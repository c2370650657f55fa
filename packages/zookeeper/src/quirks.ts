import type { Clock } from '@locks/core'
import { State } from 'node-zookeeper-client'
import type { Client } from 'node-zookeeper-client'
import type { Address } from './four-letter-words.ts'

/** The library's word for a connection manager that is finished. */
const CLOSED = -2

/** A client that was closed before does not say so again. */
const MAX_DROPS = 20

/**
 * The library's connection, where it cannot be relied on: a partial frame left over from the
 * connection before garbles the next, and an error code it does not know ends the process.
 */
export function harden({ connectionManager: manager }: Client): void {
  const connected = manager.onSocketConnected.bind(manager)
  const data = manager.onSocketData.bind(manager)
  manager.onSocketConnected = () => {
    manager.pendingBuffer = null
    // Core keeps the process alive while somebody waits; a silent server must not.
    manager.socket?.unref()
    connected()
  }
  manager.onSocketData = (bytes) => {
    try {
      data(bytes)
    } catch {
      manager.socket?.destroy()
    }
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
  return state === State.EXPIRED || state === State.AUTH_FAILED || client.connectionManager.state === CLOSED
}

/** The server that a client is connected to. */
export function addressOf({ connectionManager }: Client): Address | undefined {
  const { remoteAddress: host, remotePort: port } = connectionManager.socket ?? {}
  return host === undefined || port === undefined ? undefined : { host, port }
}

/** Ends the present connection, not the session. The library does not notice by itself that a server is silent. */
export function dropConnection({ connectionManager }: Client): void {
  connectionManager.socket?.destroy()
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
 * everybody's way: so it is closed as soon as there is a connection, or given up after `boundMs`.
 */
export function retire(client: Client, clock: Clock, boundMs: number): void {
  if (isOver(client)) return
  if (client.getState() === State.SYNC_CONNECTED) return void stop(client, clock)
  const timer = clock.timer(boundMs, () => finish(0))
  client.on('state', onState)

  function onState(state: State): void {
    if (state === State.SYNC_CONNECTED) finish()
    else if (state !== State.DISCONNECTED) leave()
  }
  function finish(patienceMs?: number): void {
    leave()
    void stop(client, clock, patienceMs)
  }
  function leave(): void {
    timer.cancel()
    client.off('state', onState)
  }
}
