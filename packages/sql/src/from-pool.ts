import type { Clock } from '@locks/core/adapter'
import type { Faults } from './faults.ts'

/** Shorter than core's default patience with a silent store, so that its error is this one. */
const PATIENCE_MS = 4_000

/** What a pool of the program's own says of itself. */
export interface PoolUse {
  /** How many connections it may have. */
  readonly max: number
  /** Whether it has that many, and all are in use. */
  readonly full: boolean
}

/**
 * A connection of the program's own pool. Pools wait without a word while all their connections are in use: after a while,
 * or when the pool itself gives up, the error says that this is why. A connection that comes later goes back at once.
 */
export async function fromPool<C>(
  connect: () => Promise<C>,
  giveBack: (connection: C) => void,
  useOf: () => PoolUse,
  clock: Clock,
  faults: Faults,
): Promise<C> {
  const exhausted = (): Error | undefined => {
    const { max, full } = useOf()
    if (!full) return undefined
    return faults.unavailable(
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
        reject(exhausted() ?? faults.toLockError(error))
      },
    )
  })
}
