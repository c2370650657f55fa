import type { Clock } from '@locks/core/adapter'
import type { SqlErrors } from './errors.ts'

/** Shorter than core's default `storeTimeoutMs`, so that the caller gets the error below. */
const PATIENCE_MS = 4_000

/** How busy the program's pool is. */
export interface PoolUse {
  /** How many connections it may have. */
  readonly max: number
  /** Whether it has that many, and all are in use. */
  readonly full: boolean
}

/**
 * A connection of the program's pool. Pools wait silently while all their connections are in use. After a while, or
 * when the pool itself gives up, the error says so. A connection that arrives later goes back at once.
 */
export async function fromPool<C>(
  connect: () => Promise<C>,
  giveBack: (connection: C) => void,
  useOf: () => PoolUse,
  clock: Clock,
  errors: SqlErrors,
): Promise<C> {
  const exhausted = (): Error | undefined => {
    const { max, full } = useOf()
    if (!full) return undefined
    return errors.unavailable(
      `all ${max} connections of your pool are in use; give the pool more, or release its connections sooner`,
    )
  }
  const connecting = connect()
  return new Promise((resolve, reject) => {
    let over = false
    const timer = clock.timer(PATIENCE_MS, () => {
      const error = exhausted()
      if (error === undefined) return
      over = true
      reject(error)
    })
    connecting.then(
      (connection) => {
        timer.cancel()
        if (over) giveBack(connection)
        else resolve(connection)
      },
      (error: unknown) => {
        timer.cancel()
        reject(exhausted() ?? errors.toLockError(error))
      },
    )
  })
}
