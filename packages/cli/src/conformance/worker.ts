import { stripVTControlCharacters } from 'node:util'
import { isLockError } from '@locks/core'
import { conformance } from '@locks/core/conformance'
import type { ConformanceCase, HistoryEvent } from '@locks/core/conformance'
import { UsageError } from '../errors.ts'
import { signals } from '../invocation.ts'
import { leftOut, outcomeOf } from './outcome.ts'
import type { Outcome } from './outcome.ts'
import { resolveSubject } from './resolve-subject.ts'
import type { OpenSubject } from './resolve-subject.ts'
import { tidy } from './tidy.ts'
import type { CaseInfo, WorkerCall, WorkerMessage, WorkerOrder } from './worker-protocol.ts'

// A process that runs cases one at a time, with its own subject.

/** The default of the suite. */
const USUAL_TTL_MS = 1_000

const stop = new AbortController()
let running: Promise<void> | undefined
let subject: OpenSubject | undefined
let cases: readonly ConformanceCase[] = []

// Ctrl-C reaches every process of a terminal; the parent process shuts this one down.
for (const signal of signals) process.on(signal, () => undefined)
process.on('disconnect', () => void end())
process.on('uncaughtException', (error) => {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  const crashed: WorkerMessage = { type: 'crashed', message }
  if (process.connected) process.send?.(crashed, () => process.exit(1))
  else process.exit(1)
})

function tell(message: WorkerMessage): void {
  if (process.connected) process.send?.(message)
}

async function end(): Promise<void> {
  stop.abort(new Error('interrupted'))
  await running
  await subject?.[Symbol.asyncDispose]?.()
  process.exit(0)
}

function infoOf({ id, area, kind, title, timeoutMs, untested, applicable }: ConformanceCase): CaseInfo {
  const promise = title.slice(id.length + 1, title.lastIndexOf(' ['))
  return { id, area, kind, promise, timeoutMs, applicable, ...(untested !== undefined && { untested }) }
}

async function tryCase(one: ConformanceCase): Promise<Outcome> {
  const info = infoOf(one)
  const left = leftOut(info)
  if (left !== undefined) return left
  let history: readonly HistoryEvent[] | undefined
  let reason: string | undefined
  const voids: string[] = []
  const late = new AbortController()
  const { timeoutMs } = info
  const timer = setTimeout(() => late.abort(new Error(`did not finish within ${timeoutMs} ms`)), timeoutMs)
  const startedAt = performance.now()
  try {
    const signal = AbortSignal.any([late.signal, stop.signal])
    await one.run({
      signal,
      onHistory: (events) => (history = events),
      onName: (name) => tell({ type: 'name', name }),
      onVoid: ({ message }) => void voids.push(message),
    })
  } catch (error) {
    // node:assert colours its messages for a terminal; this one may go into an HTML page.
    reason = stripVTControlCharacters(error instanceof Error ? error.message : String(error))
  } finally {
    clearTimeout(timer)
  }
  return outcomeOf(info, {
    state: reason === undefined ? 'passed' : 'failed',
    durationMs: Math.round(performance.now() - startedAt),
    ...(reason !== undefined && { reason }),
    ...(voids.length > 0 && { voids }),
    ...(history !== undefined && { history }),
  })
}

async function begin({ target, options, ttlMs }: WorkerOrder): Promise<void> {
  try {
    subject = await resolveSubject(target, options)
    const asked = ttlMs ?? subject.ttlMs ?? USUAL_TTL_MS
    cases = await conformance({ ...subject, ttlMs: asked })
    const lasts = subject[Symbol.asyncDispose] === undefined
    tell({ type: 'ready', subject: subject.name, ttlMs: asked, cases: cases.map(infoOf), lasts })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const misused = error instanceof UsageError || isLockError(error, 'LOCK_INVALID_ARGUMENT')
    tell({ type: 'failed', message, misused })
  }
}

async function run(id: string): Promise<void> {
  const one = cases.find((each) => each.id === id)
  if (one !== undefined) tell({ type: 'outcome', outcome: await tryCase(one) })
}

async function tidyUp(names: readonly string[]): Promise<void> {
  try {
    tell({ type: 'tidied', left: subject === undefined ? [] : await tidy(subject, names) })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    tell({ type: 'tidied', left: [{ names: names.length, why: `cleaning up failed: ${why}` }] })
  }
}

process.on('message', (call: WorkerCall) => {
  if (call.type === 'begin') running = begin(call.order)
  else running = call.type === 'run' ? run(call.id) : tidyUp(call.names)
})
