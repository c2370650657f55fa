import type { Clock } from '@locks/core'
import { State } from 'node-zookeeper-client'
import type { Client } from 'node-zookeeper-client'

/** The library's word for a connection manager that is finished. */
const CLOSED = -2

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

/** Ends the present connection, not the session. The library does not notice by itself that a server is silent. */
export function dropConnection({ connectionManager }: Client): void {
  connectionManager.socket?.destroy()
}

/** Ends a session, at the server too if that listens, and the connection in any case. */
export function stop(client: Client, clock: Clock, patienceMs = 500): Promise<void> {
  const { connectionManager: manager } = client
  return new Promise((resolve) => {
    let timer = clock.timer(patienceMs, insist)
    timer.keepAlive(true)
    manager.on('state', onState)
    // Before its first socket exists the library cannot be closed.
    if (manager.socket === undefined) setImmediate(() => client.close())
    else client.close()

    function onState(state: unknown): void {
      if (state !== CLOSED) return
      timer.cancel()
      manager.off('state', onState)
      resolve()
    }
    // A reconnection that was under way brings one more socket.
    function insist(): void {
      dropConnection(client)
      timer = clock.timer(50, insist)
      timer.keepAlive(true)
    }
  })
}

/**
 * Ends a session that is believed lost. Should the server still know it, its nodes stand in
 * everybody's way: so it is closed as soon as there is a connection, or given up after `boundMs`.
 */
export function retire(client: Client, clock: Clock, boundMs: number): void {
  if (client.getState() === State.EXPIRED || client.getState() === State.AUTH_FAILED) return
  if (client.getState() === State.SYNC_CONNECTED) return void stop(client, clock)
  const timer = clock.timer(boundMs, finish)
  client.on('state', onState)

  function onState(state: State): void {
    if (state === State.SYNC_CONNECTED) finish()
    else if (state !== State.DISCONNECTED) leave()
  }
  function finish(): void {
    leave()
    void stop(client, clock, 0)
  }
  function leave(): void {
    timer.cancel()
    client.off('state', onState)
  }
}
