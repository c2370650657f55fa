import { readFileSync, readdirSync } from 'node:fs'
import { setTimeout as pass } from 'node:timers/promises'
import { spawn } from 'node:child_process'
import { onTestFinished } from 'vitest'
import { signalOne } from '../services/guardian/process-tree.mjs'

/** Stops processes for a while without notice, like a machine that swaps or sleeps. */
export async function stopFor(pids: readonly number[], ms: number): Promise<void> {
  const signal = (name: NodeJS.Signals): void => pids.forEach((pid) => signalOne(pid, name))
  const goOn = (): void => signal('SIGCONT')
  onTestFinished(goOn)
  signal('SIGSTOP')
  await pass(ms)
  goOn()
}

/** The child processes of this one whose command line has this in it. */
export function childrenWith(text: string): readonly number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      if (!Number.isInteger(pid)) return false
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
        const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        if (state === 'Z' || Number(parent) !== process.pid) return false
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text)
      } catch {
        // It has ended meanwhile.
        return false
      }
    })
}

/** Keeps every core busy with `count` processes until the test ends. */
export function keepBusy(count: number): void {
  const loops = Array.from({ length: count }, () =>
    spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
  )
  onTestFinished(() => loops.forEach((loop) => loop.kill('SIGKILL')))
}
