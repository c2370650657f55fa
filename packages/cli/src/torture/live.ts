import { showDuration } from '../duration.ts'
import type { Progress } from './options.ts'

/** The progress of a run: a line that changes on a terminal, a line every ten seconds elsewhere. */
export function liveProgress(forMs: number): {
  readonly show: (progress: Progress) => void
  readonly over: () => void
} {
  const { stderr } = process
  let last = -Infinity
  return {
    show({ phase, elapsedMs, grants, faults }) {
      const time =
        phase === 'faults' ? `${showDuration(elapsedMs)} of ${showDuration(forMs)}` : showDuration(elapsedMs)
      const line = `${time}: ${grants} grants, ${faults} faults, ${phase}`
      if (stderr.isTTY) stderr.write(`\r\x1b[2K${line.slice(0, (stderr.columns ?? 80) - 1)}`)
      else if (elapsedMs - last >= 10_000) {
        last = elapsedMs
        stderr.write(`${line}\n`)
      }
    },
    over: () => void (stderr.isTTY && stderr.write('\r\x1b[2K')),
  }
}
