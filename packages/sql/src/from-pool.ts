import { orAfter } from '@locks/core/adapter'
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
  try {
    const soon = await orAfter(clock, PATIENCE_MS, connecting)
    const error = soon === undefined ? exhausted() : undefined
    if (error === undefined) return await connecting
    connecting.then(giveBack, () => undefined)
    throw error
  } catch (error) {
    throw exhausted() ?? errors.toLockError(error)
  }
}
