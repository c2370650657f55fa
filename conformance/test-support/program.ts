import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { onTestFinished } from 'vitest'

/** A module in a process of its own, which has said something. */
export interface Program {
  /** A line on its stdin. */
  readonly goOn: () => void
  /** Exit code and signal. */
  readonly exited: Promise<unknown>
}

/** Starts `source`, which finds its packages from `cwd`; resolves once it says something. */
export async function startProgram(source: string, cwd: string): Promise<Program> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], {
    stdio: ['pipe', 'pipe', 'inherit'],
    cwd,
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  await once(child.stdout, 'data')
  return { goOn: () => void child.stdin.write('go on\n'), exited }
}
