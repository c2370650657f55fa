import type { Clock } from '@locks/core/adapter'
import type { Connection } from './connection.ts'
import type { ConnectionPool } from './connection-pool.ts'
import type { SqlErrors } from './errors.ts'
import { pause } from './pause.ts'

/** How often a statement that the server rolled back is run. */
const TRIES = 20

/**
 * Runs a statement again after a deadlock or the like: it left nothing behind, and may pass the next time. The pause is
 * random, so that two statements that collided do not collide again.
 */
export function retried<Call extends readonly unknown[], Result>(
  run: (...call: Call) => Promise<Result>,
  isTransient: (error: unknown) => boolean,
  { toLockError }: SqlErrors,
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
