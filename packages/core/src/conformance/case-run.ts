import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { HistoryEvent } from './history.ts'
import { eventually, inTime, isVoidRun, judgeFailure } from './time/bounds.ts'
import type { Bound, VoidRunError } from './time/bounds.ts'
import { stallMeter } from './time/stall-meter.ts'
import { watchRejections } from './unhandled-rejections.ts'

/** Every time in the suite is multiplied by this, for slow or busy machines. */
export function slowFactor(): number {
  const factor = Number(process.env['LOCKS_TEST_SLOW'] ?? 1)
  return Number.isFinite(factor) && factor >= 1 ? factor : 1
}

/** The hooks of a test runner into a case. The test contexts of vitest and node:test fit. */
export interface CaseHost {
  /** Ends the case early: it then rejects with the signal's reason, after everything it made is closed. */
  readonly signal?: AbortSignal
  /** Gets what the processes of a contended case recorded, before it is judged. */
  readonly onHistory?: (events: readonly HistoryEvent[]) => void
  /** Gets the name of each lock before the case uses it. A host that shares the store can clean up after the case. */
  readonly onName?: (name: string) => void
  /** Called when a run of the case is void, with what was paused. A case runs up to three times. */
  readonly onVoid?: (why: VoidRunError) => void
}

/** One run of a case. Everything it makes is closed or killed when it ends, and a failure is judged by the stalls. */
export class CaseRun {
  protected host: CaseHost = {}
  /** The locks of this case: an unhandled rejection that names another is not its own. */
  protected readonly names: Set<string> = new Set()
  readonly #cleanups: (() => Promise<unknown>)[] = []
  #over = false

  /** A lease length short enough to wait for its end, already scaled. Only for rules about that end. */
  get ttlMs(): number {
    return this.ms(1_000)
  }

  /** A duration, scaled for slow machines. */
  ms(duration: number): number {
    return Math.ceil(duration * slowFactor())
  }

  /** A new directory for this rule. */
  async directory(): Promise<string> {
    const path = await mkdtemp(join(tmpdir(), 'locks-conformance-'))
    this.onEnd(() => rm(path, { recursive: true, force: true }))
    return path
  }

  /** Calls `probe` until it returns something other than undefined or false. Fails the rule if that is not in time. */
  eventually<T>(
    what: string,
    within: number | Bound,
    probe: () => Promise<T | undefined | null | false> | T | undefined | null | false,
  ): Promise<T> {
    return eventually(what, within, probe)
  }

  onEnd(cleanup: () => Promise<unknown>): void {
    // A rule that was ended early may still be running.
    if (this.#over) void cleanup().catch(() => undefined)
    else this.#cleanups.push(cleanup)
  }

  /** Runs `body`, then ends everything it made. An unhandled rejection meanwhile fails the rule. */
  async run(
    body: (self: this) => Promise<void>,
    host: CaseHost = {},
    limit: number | Bound = 600_000,
  ): Promise<void> {
    this.host = host
    this.measure()
    const startedAt = performance.now()
    const rejections = watchRejections(this.names)
    const failures: unknown[] = []
    const go = async (work: () => Promise<unknown>): Promise<void> => {
      try {
        await work()
      } catch (error) {
        failures.push(error)
      }
    }
    const ended = async (): Promise<void> => {
      try {
        await inTime('the end of the rule', limit, body(this))
      } catch (error) {
        throw await judgeFailure(error, startedAt, this.ttlMs)
      }
    }
    await go(() => unlessAborted(ended(), host.signal))
    this.#over = true
    for (const cleanup of this.#cleanups.reverse()) await go(cleanup)
    // Node reports a rejection as unhandled one iteration of the event loop later.
    await new Promise((resolve) => setImmediate(resolve))
    const unhandled = rejections.end({ failed: failures.length > 0 })
    // A failure that is not about time counts, even during a stall.
    const failed = failures.findIndex((error) => !isVoidRun(error))
    if (failed >= 0) throw failures[failed]
    assert.deepEqual(unhandled, [], 'unhandled rejections')
    if (failures.length > 0) throw failures[0]
  }

  /** Measures how long this process and its children are paused, until the case ends. */
  protected measure(): void {
    const stop = stallMeter.start()
    this.onEnd(async () => stop())
  }
}

async function unlessAborted(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return work
  let stop = (): void => undefined
  const aborted = new Promise<void>((resolve) => {
    stop = resolve
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
  })
  try {
    await Promise.race([work, aborted.then(() => signal.throwIfAborted())])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
