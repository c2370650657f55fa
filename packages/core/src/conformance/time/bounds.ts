import { AssertionError } from 'node:assert'
import { isLockError } from '../../adapter/lock-error.ts'
import type { LockErrorCode } from '../../adapter/lock-error.ts'
import { hostNow } from './heartbeat.ts'
import { stallMeter, totalMs } from './stall-meter.ts'
import type { Stall } from './stall-meter.ts'

/** A promise about time. */
export interface Bound {
  readonly ms: number
  /** How it follows from options, such as `ttlMs + 250 ms`. */
  readonly from?: string
  /** How much of it passes by design, such as the ttl of a holder that vanished. */
  readonly waitsMs?: number
  /**
   * The store's clock alone brings it about, without any process. Then an answer of "not yet" to a question asked after
   * the bound is a failure even if the machine was paused.
   */
  readonly passive?: boolean
}

/** A bound was missed, and not because the machine was paused. */
export class LateError extends AssertionError {
  override readonly name = 'LateError'
}

/** A bound was missed because the machine was paused meanwhile: neither passed nor failed. */
export class VoidRunError extends Error {
  override readonly name = 'VoidRunError'
  /** Which bound was missed. */
  readonly missed: string
  readonly stalls: readonly Stall[]

  constructor(missed: string, stalls: readonly Stall[]) {
    super(`void: ${missed}; meanwhile ${describe(stalls)}`)
    this.missed = missed
    this.stalls = stalls
  }
}

/** Accepts errors from another copy of this package too. */
export function isVoidRun(error: unknown): error is VoidRunError {
  return error instanceof Error && error.name === 'VoidRunError'
}

/**
 * Throws unless what began `tookMs` ago, by `performance.now()`, was within `bound`: a `LateError`, or a `VoidRunError`
 * if it would have been in time without the stalls of this process, its children and the server.
 */
export async function assertInTime(what: string, limit: number | Bound, tookMs: number): Promise<void> {
  const bound = boundOf(limit)
  if (tookMs <= bound.ms) return
  const stalls = await stallMeter.since(tookMs, bound.waitsMs)
  const missed = `${what}: after ${round(tookMs)} ms; the bound is ${inWords(bound)}`
  if (tookMs - totalMs(stalls) <= bound.ms) throw new VoidRunError(missed, stalls)
  throw new LateError({ message: `${missed}; ${describe(stalls)} meanwhile` })
}

/** Fails unless `work` settles in time. */
export async function inTime<T>(what: string, limit: number | Bound, work: Promise<T>): Promise<T> {
  const bound = boundOf(limit)
  const startedAt = performance.now()
  let settled = false
  const watched = work.finally(() => (settled = true))
  const late = async (): Promise<never> => {
    while (!settled && !isOverdue(bound, startedAt)) await pass(nextLookMs(bound, startedAt))
    if (!settled) await assertInTime(`not yet: ${what}`, bound, performance.now() - startedAt)
    // Settled in time, or judged below.
    return new Promise<never>(() => undefined)
  }
  const value = await Promise.race([watched, late()])
  await assertInTime(what, bound, performance.now() - startedAt)
  return value
}

/** Calls `probe` until it returns something other than undefined, null or false. Fails if that is not in time. */
export async function eventually<T>(
  what: string,
  limit: number | Bound,
  probe: () => Promise<T | undefined | null | false> | T | undefined | null | false,
): Promise<T> {
  const bound = boundOf(limit)
  const startedAt = performance.now()
  for (;;) {
    const askedAt = performance.now()
    const found = await probe()
    if (found !== undefined && found !== null && found !== false) {
      // The answer became true when it was asked for, or later.
      await assertInTime(what, bound, askedAt - startedAt)
      return found
    }
    if (bound.passive === true && askedAt - startedAt > bound.ms)
      throw new LateError({ message: `not yet: ${what}: asked after ${inWords(bound)}` })
    if (isOverdue(bound, startedAt))
      await assertInTime(`not yet: ${what}`, bound, performance.now() - startedAt)
    await pass(5)
  }
}

const ABOUT_TIME: readonly LockErrorCode[] = ['LOCK_LOST', 'LOCK_TIMEOUT', 'LOCK_UNAVAILABLE']

/**
 * An unexpected loss of a lease, time-out of a wait or call, or broken connection. Not an assertion, nor an answer that
 * the adapter contract does not allow.
 */
function isAboutTime(error: unknown): boolean {
  if (isLockError(error)) return ABOUT_TIME.includes(error.code) && !(error.cause instanceof TypeError)
  const ours = [AssertionError, TypeError, RangeError, ReferenceError, SyntaxError]
  return error instanceof Error && !isVoidRun(error) && !ours.some((kind) => error instanceof kind)
}

/**
 * How to report a failure since `startedAt`. Leases, waits, calls and connections have their own time bounds. If one
 * ended unexpectedly, and the machine was paused for a third of `usualMs` within that length of time, the run is void.
 * For a longer wait it must have been a third of that wait. Assertions of a rule are reported as they are.
 */
export async function judgeFailure(error: unknown, startedAt: number, usualMs: number): Promise<unknown> {
  if (!isAboutTime(error)) return error
  const waitedMs = isLockError(error) ? (error.waitedMs ?? 0) : 0
  const widthMs = Math.max(usualMs, waitedMs)
  const from = hostNow() - (performance.now() - startedAt)
  // Children report late.
  await stallMeter.since(0)
  const stalls = stallMeter.worst(from, hostNow(), widthMs)
  return totalMs(stalls) < widthMs / 3 ? error : new VoidRunError(String(error), stalls)
}

/** How far a bound must be missed, without the stalls, before waiting stops: some stalls are reported late. */
const SURE_MS = 250

/** Whether what began at `startedAt` is so late that no stall excuses it, or that waiting longer is useless. */
export function isOverdue(limit: number | Bound, startedAt: number): boolean {
  const { ms, waitsMs } = boundOf(limit)
  const tookMs = performance.now() - startedAt
  if (tookMs <= ms + SURE_MS) return false
  const now = hostNow()
  return (
    tookMs > ms * 4 + SURE_MS ||
    tookMs - totalMs(stallMeter.during(now - tookMs, now, waitsMs)) > ms + SURE_MS
  )
}

function nextLookMs({ ms }: Bound, startedAt: number): number {
  return Math.min(Math.max(startedAt + ms + SURE_MS - performance.now(), 20), 250)
}

function boundOf(limit: number | Bound): Bound {
  return typeof limit === 'number' ? { ms: limit } : limit
}

function describe(stalls: readonly Stall[]): string {
  if (stalls.length === 0) return 'nothing stood still'
  return stalls
    .map(
      ({ who, ms, longestMs }) => `${who} stood still for ${round(ms)} ms (${round(longestMs)} ms at once)`,
    )
    .join(', ')
}

function inWords({ ms, from }: Bound): string {
  return from === undefined ? `${round(ms)} ms` : `${round(ms)} ms (${from})`
}

function round(ms: number): string {
  return Math.round(ms).toLocaleString('en')
}

function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
