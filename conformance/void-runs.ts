import { stallMeter, VoidRunError } from '@locks/core/conformance'
import { afterEach, beforeEach } from 'vitest'
import { forgetHistory, keepEvidence } from './evidence.ts'
import './report/outcome.ts'

/**
 * For every test of a file: one that failed by a bound of time while the machine stood still is void, and runs again as
 * often as `retry` in `vitest.config.ts` allows. Nothing else does: that one only knows the message of a void run. A
 * worker serves several files, and each has hooks of its own.
 */
export function judgeVoidRuns(): void {
  /** By test, since some run beside each other. */
  const began = new Map<string, number>()

  beforeEach(({ task }) => void began.set(task.id, performance.now()))

  afterEach(async ({ task }) => {
    const errors = task.result?.state === 'fail' ? (task.result.errors ?? []) : []
    const error = errors.at(-1)
    const startedAt = began.get(task.id) ?? performance.now()
    began.delete(task.id)
    if (error !== undefined) {
      const stalls = await stallMeter.since(performance.now() - startedAt)
      task.meta.evidence = await keepEvidence({ id: task.id, name: task.fullName, errors, stalls })
    }
    forgetHistory(task.id)
    // A case of the suite judges its own runs.
    if (error === undefined || task.meta.locks !== undefined) return
    const voided =
      error.name === 'VoidRunError' ? error.message : await whyVoid(error, performance.now() - startedAt)
    if (voided === undefined) return
    task.meta.voids = [...(task.meta.voids ?? []), voided]
    // The last error of a test decides whether it runs again.
    if (error.name !== 'VoidRunError') throw new Error(voided)
  })
}

interface Failure {
  readonly name?: string
  readonly message: string
  readonly code?: unknown
}

const TIME_OUT =
  /timed out|did not succeed in time|(no answer|did not answer) within|connection .*(lost|closed|terminated)/i
const CODES = ['LOCK_LOST', 'LOCK_TIMEOUT', 'LOCK_UNAVAILABLE', 'ECONNRESET', 'ETIMEDOUT', 'EPIPE']

/** A time-out, of the test or of what it works with, while much of the time was lost. No assertion is excused. */
async function whyVoid(error: Failure, tookMs: number): Promise<string | undefined> {
  const asserted = error.name === 'AssertionError' && !/did not succeed in time/.test(error.message)
  if (asserted || !(TIME_OUT.test(error.message) || CODES.includes(String(error.code)))) return undefined
  const stalls = await stallMeter.since(tookMs)
  const lostMs = stalls.reduce((sum, { ms }) => sum + ms, 0)
  return lostMs < Math.min(tookMs / 10, 1_000) ? undefined : new VoidRunError(error.message, stalls).message
}
