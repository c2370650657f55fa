import { pause } from '@locks/core/adapter'
import type { Clock } from '@locks/core/adapter'
import type { Connection } from './connection.ts'
import { ConnectionPool } from './connection-pool.ts'
import type { ConnectionPoolOptions } from './connection-pool.ts'
import type { SqlErrors } from './errors.ts'

/** How often a statement that the server rolled back is run. */
const TRIES = 20

/**
 * Runs a statement again after a deadlock or the like: it left nothing behind, and may pass the next time. The pause is
 * random, so that two statements that collided do not collide again.
 */
export function retried<Call extends readonly unknown[], Result>(
  run: (...call: Call) => Promise<Result>,
  { isTransient, toLockError }: SqlErrors,
  clock: Clock,
): (...call: Call) => Promise<Result> {
  return async (...call) => {
    for (let tries = 1; ; tries += 1)
      try {
        return await run(...call)
      } catch (error) {
        if (tries >= TRIES || !isTransient(error)) throw toLockError(error)
        await pause(clock, clock.random() * tries)
      }
  }
}

/** Connections for single, short statements. */
export interface Room {
  /** Whether a statement is sent at once, without waiting for a connection in use. */
  hasRoom(): boolean
  close(): Promise<void>
}

/** Where such statements are sent. */
export interface Sender<Call extends readonly unknown[], Result> extends Room {
  readonly send: (...call: Call) => Promise<Result>
}

/** Sends each statement on any free connection of the adapter's own. */
export function onOwnConnections<C extends Connection, Call extends readonly unknown[], Result>(
  options: ConnectionPoolOptions<C>,
  send: (connection: C, ...call: Call) => Promise<Result>,
): Sender<Call, Result> {
  const connections = new ConnectionPool(options)
  return {
    send: (...call) => onAnyConnection(connections, options.clock, (connection) => send(connection, ...call)),
    hasRoom: () => !connections.full,
    close: () => connections.close(),
  }
}

/** Sends each statement on a connection of the program's pool, which is not ours to open or close. */
export function onProgramPool<Call extends readonly unknown[], Result>(
  hasRoom: () => boolean,
  send: (...call: Call) => Promise<Result>,
): Sender<Call, Result> {
  return { send, hasRoom, close: () => Promise.resolve() }
}

/** Runs one short statement on any free connection. */
export async function onAnyConnection<C extends Connection, Result>(
  connections: ConnectionPool<C>,
  clock: Clock,
  work: (connection: C) => Promise<Result>,
): Promise<Result> {
  const connection = await connections.take()
  connection.busySince = clock.now()
  try {
    return await work(connection)
  } finally {
    connections.give(connection)
  }
}
