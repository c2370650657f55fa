import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import { hostNow } from './time/heartbeat.ts'

interface Stamp {
  /**
   * Milliseconds of the host's monotonic clock, the same for every process of the host. A double is precise to the
   * nanosecond for the first 104 days of uptime.
   */
  readonly t: number
  /** The process that wrote it. Unique per start: a restarted process has another name. */
  readonly process: string
}

interface Act extends Stamp {
  readonly name: string
  /** A sequence of calls in that process: a task has at most one acquire of a name under way. */
  readonly task: string
  /** The owner, where several tasks share one. Default: the task. */
  readonly owner?: string
}

interface ActUnderFence extends Act {
  readonly fence: bigint
}

/** `deadline`, on the clock of `t`: until then the holder relies on the lock. `Infinity` if it has none. */
export type HistoryEvent =
  | (Act & { readonly type: 'acquire-called' })
  | (ActUnderFence & { readonly type: 'granted'; readonly deadline: number })
  /** `fail`: certainly not acquired. `info`: unknown, the store may have acted. */
  | (Act & { readonly type: 'acquire-failed'; readonly outcome: 'fail' | 'info'; readonly code: string })
  | (ActUnderFence & { readonly type: 'renewed'; readonly deadline: number })
  | (ActUnderFence & { readonly type: 'release-called' | 'released' | 'lost' })
  | (ActUnderFence & { readonly type: 'release-failed'; readonly code: string })
  /** A protected operation starts. Take `t` before the validity check: only a fence covers a pause between the two. */
  | (ActUnderFence & { readonly type: 'protected' })
  /** Written by the process of the resource that `name` protects. */
  | (Stamp & {
      readonly type: 'resource-accepted' | 'resource-rejected'
      readonly name: string
      readonly fence: bigint
    })
  /** A fault without an end lasts to the end of the history. Without a `name` it affects all names. */
  | (Stamp & {
      readonly type: 'fault'
      readonly label: string
      readonly class: 'E' | 'F'
      readonly phase: 'begin' | 'end'
      readonly name?: string
    })
  /** Process `victim` is about to be killed; write it just before the signal. Counts as a fault. */
  | (Stamp & { readonly type: 'crash'; readonly victim: string })

type Unstamped<E> = E extends HistoryEvent ? Omit<E, 't' | 'process'> & { readonly t?: number } : never

/** An event as passed to the recorder, which adds `process`, and `t` if it is absent. */
export type HistoryEntry = Unstamped<HistoryEvent>

export interface Recorder {
  readonly process: string
  /** The clock of `t`. */
  now(): number
  /** The deadline of a lease, from what remains of it: `recorder.deadline(() => lease.remainingMs)`. */
  deadline(remainingMs: () => number): number
  /** On return the kernel has the event, so it survives a SIGKILL of this process. */
  record(entry: HistoryEntry): void
  close(): void
}

/** Fails if the file exists: a line cut off by a kill must stay the last of its file. */
export function createRecorder(file: string, process: string): Recorder {
  let fd: number | undefined = openSync(file, 'ax')
  const now = hostNow
  return {
    process,
    now,
    deadline(remainingMs) {
      // After a pause between the two readings the sum would be wrong: read again.
      for (;;) {
        const before = now()
        const deadline = before + remainingMs()
        if (now() - before < 1) return deadline
      }
    },
    record(entry) {
      if (fd === undefined) throw new Error(`the history of ${process} is closed`)
      const line = Buffer.from(`${JSON.stringify({ t: now(), process, ...entry }, writeField)}\n`)
      for (let written = 0; written < line.length;) written += writeSync(fd, line, written)
    },
    close() {
      if (fd !== undefined) closeSync(fd)
      fd = undefined
    },
  }
}

/** All events of the files by time. Events of one file with equal times keep their order. */
export function readHistory(files: readonly string[]): HistoryEvent[] {
  return files.flatMap(readFile).sort((a, b) => a.t - b.t)
}

function readFile(file: string): HistoryEvent[] {
  // A line is complete with its newline: what follows the last one was cut off by a kill.
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1)
  return lines.map((line, index) => {
    const event = parse(line)
    if (event === undefined) throw new Error(`${file}:${index + 1} is not a history event: ${line}`)
    return event
  })
}

function parse(line: string): HistoryEvent | undefined {
  try {
    const value: unknown = JSON.parse(line, readField)
    return isHistoryEvent(value) ? value : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

function writeField(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value
}

function readField(key: string, value: unknown): unknown {
  if (key === 'fence' && typeof value === 'string') return BigInt(value)
  // JSON writes Infinity as null.
  if (key === 'deadline' && value === null) return Infinity
  return value
}

const ACT = ['name', 'task']
const UNDER_FENCE = [...ACT, 'fence']
const FIELDS: Record<HistoryEvent['type'], readonly string[]> = {
  'acquire-called': ACT,
  granted: [...UNDER_FENCE, 'deadline'],
  'acquire-failed': [...ACT, 'outcome', 'code'],
  renewed: [...UNDER_FENCE, 'deadline'],
  'release-called': UNDER_FENCE,
  released: UNDER_FENCE,
  'release-failed': [...UNDER_FENCE, 'code'],
  lost: UNDER_FENCE,
  protected: UNDER_FENCE,
  'resource-accepted': ['name', 'fence'],
  'resource-rejected': ['name', 'fence'],
  fault: ['label', 'class', 'phase'],
  crash: ['victim'],
}
const TYPES = new Map<unknown, readonly string[]>(Object.entries(FIELDS))
const isText = (value: unknown): boolean => typeof value === 'string'
const CHECKS = new Map<string, (value: unknown) => boolean>([
  ['fence', (value) => typeof value === 'bigint'],
  ['deadline', (value) => typeof value === 'number'],
  ['outcome', (value) => value === 'fail' || value === 'info'],
  ['class', (value) => value === 'E' || value === 'F'],
  ['phase', (value) => value === 'begin' || value === 'end'],
])

function isHistoryEvent(value: unknown): value is HistoryEvent {
  if (typeof value !== 'object' || value === null) return false
  const fields = new Map<string, unknown>(Object.entries(value))
  const required = TYPES.get(fields.get('type'))
  if (required === undefined || typeof fields.get('t') !== 'number') return false
  return ['process', ...required].every((field) => (CHECKS.get(field) ?? isText)(fields.get(field)))
}
