import { assertInTime, isOverdue } from '@locks/core/conformance'
import { setTimeout as delay } from 'node:timers/promises'

/** LOCKS_TEST_SLOW stretches every bound of this folder, for machines that are slow or shared. */
const slowness: number = readSlowness(process.env['LOCKS_TEST_SLOW'])

function readSlowness(text: string | undefined): number {
  if (text === undefined || text === '') return 1
  const factor = Number(text)
  if (!Number.isFinite(factor) || factor <= 0) {
    throw new Error(`LOCKS_TEST_SLOW must be a factor above 0, not ${JSON.stringify(text)}`)
  }
  return factor
}

export function scaled(ms: number): number {
  return Math.ceil(ms * slowness)
}

export interface EventuallyOptions {
  /** Stretched by LOCKS_TEST_SLOW. */
  readonly withinMs?: number
  /** Gives the reason why further waiting is hopeless, if there is one. */
  readonly unless?: () => Promise<Error | undefined>
}

/** Repeats `check` until it neither throws nor answers `undefined` or `false`. */
export async function eventually<T>(
  what: string,
  check: () => T | Promise<T>,
  { withinMs = 10_000, unless }: EventuallyOptions = {},
): Promise<Exclude<T, undefined | false>> {
  const startedAt = performance.now()
  const bound = scaled(withinMs)
  for (;;) {
    const hopeless = await unless?.()
    if (hopeless !== undefined) throw hopeless
    let cause: unknown
    try {
      const value = await check()
      if (isOutcome(value)) return value
    } catch (error) {
      cause = error
    }
    // Not while the machine stands still: to wait longer costs nothing.
    if (isOverdue(bound, startedAt)) {
      const why = cause instanceof Error ? `: ${cause.message}` : ''
      await assertInTime(`in vain until ${what}${why}`, bound, performance.now() - startedAt)
    }
    await delay(20)
  }
}

/** Rejects when `work` takes longer; stretched by LOCKS_TEST_SLOW. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const done = new AbortController()
  const bound = scaled(ms)
  const expiry = delay(bound, undefined, { signal: done.signal }).then(() => {
    throw new Error(`no answer within ${bound} ms`)
  })
  try {
    return await Promise.race([work, expiry])
  } finally {
    done.abort()
  }
}

function isOutcome<T>(value: T): value is Exclude<T, undefined | false> {
  return value !== undefined && value !== false
}
