import { stripVTControlCharacters } from 'node:util'
import type { Invocation } from '../invocation.ts'
import type { Outcome } from './outcome.ts'

const marks = {
  passed: ['green', '✓'],
  failed: ['red', '✗'],
  'not applicable': ['dim', '·'],
  'not tried': ['yellow', '–'],
} as const

export interface Progress {
  begins(id: string, promise: string): void
  ended(outcome: Outcome): void
  /** A line that a process of the suite printed while that rule ran. */
  said(line: string, rule?: string): void
  over(): void
}

/** On a terminal a line that changes, below the failures; elsewhere a line per rule. */
export function progress(total: number, { paintError }: Invocation): Progress {
  const { stderr } = process
  const live = stderr.isTTY
  let done = 0
  let current = ''
  const clear = (): void => void (live && stderr.write('\r\x1b[2K'))
  const draw = (): void => void (live && stderr.write(current))
  return {
    begins(id, promise) {
      if (!live) return
      current = `${done}/${total} ${id} ${promise}`.slice(0, (stderr.columns ?? 80) - 1)
      clear()
      draw()
    },
    ended({ id, promise, state, durationMs, reason }) {
      done += 1
      const [colour, mark] = marks[state]
      const wasRun = state === 'passed' || state === 'failed'
      const why = wasRun ? ` ${durationMs} ms` : ` (${state}: ${reason})`
      if (live && state !== 'failed') return
      clear()
      stderr.write(`${paintError(colour, mark)} ${id} ${promise}${paintError('dim', why)}\n`)
      draw()
    },
    said(line, rule = 'start') {
      clear()
      // What moves the cursor would draw over other lines.
      const text = stripVTControlCharacters(line).replaceAll(/[^\P{Cc}\t]/gu, '')
      stderr.write(`${paintError('dim', `[${rule}]`)} ${text}\n`)
      draw()
    },
    over() {
      clear()
      current = ''
    },
  }
}
