import { spawn } from 'node:child_process'
import type { ChildProcess, SpawnOptions } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { setTimeout as pass } from 'node:timers/promises'
import { isatty } from 'node:tty'
import { descendantsOf } from './descendants.ts'
import { CannotRun } from './errors.ts'
import { signalCode } from './exit-codes.ts'

/** The command of `locks run`, with what it started. */
export interface RunningChild {
  /** Its exit code, or 128 + n after signal n, as in a shell. Rejects if it could not be started. */
  readonly ended: Promise<number>
  /** Forwards a signal that this program received. */
  pass(signal: NodeJS.Signals): void
  /** Sends SIGTERM, and SIGKILL after `graceMs`, to all its processes. Resolves when none of them runs. */
  terminate(graceMs: number): Promise<void>
  stop(): void
  resume(): void
}

/**
 * Without a terminal the command has its own process group, so that it can be ended as a whole. On a terminal it
 * stays in ours; otherwise it could use neither the keyboard nor /dev/tty. There Ctrl-C and Ctrl-\ reach it directly.
 */
export function startChild(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): RunningChild {
  const ownGroup = !hasTerminal() && process.platform !== 'win32'
  const child = started(command, args, {
    stdio: 'inherit',
    env: { ...process.env, ...env },
    detached: ownGroup,
  })
  const { pid } = child
  const ended = new Promise<number>((resolve, reject) => {
    child.once('error', (error: NodeJS.ErrnoException) => reject(cannotRun(command, error)))
    child.once('exit', (code, signal) => resolve(signal === null ? (code ?? 1) : signalCode(signal)))
  })
  ended.catch(() => undefined)

  const all = (): readonly number[] => {
    if (pid === undefined) return []
    return ownGroup ? [-pid] : [pid, ...descendantsOf(pid)]
  }

  return {
    ended,
    pass(signal) {
      if (pid === undefined) return
      if (ownGroup) send(-pid, signal)
      else if (signal !== 'SIGINT' && signal !== 'SIGQUIT') send(pid, signal)
    },
    async terminate(graceMs) {
      const targets = all()
      // A stopped process must continue to handle SIGTERM.
      for (const target of targets) if (send(target, 'SIGTERM')) send(target, 'SIGCONT')
      if (await areGone(targets, graceMs)) return
      const remaining = new Set([...targets, ...all()])
      for (const target of remaining) send(target, 'SIGKILL')
      // A zombie that is never reaped looks alive forever.
      await areGone([...remaining], 1_000)
    },
    stop: () => void all().map((target) => send(target, 'SIGSTOP')),
    resume: () => void all().map((target) => send(target, 'SIGCONT')),
  }
}

/** Also true if stdin is a pipe or a file: a command may ask for a password at /dev/tty. */
export function hasTerminal(): boolean {
  // Not process.stdin, since reading it would open it in this process.
  if (isatty(0)) return true
  try {
    closeSync(openSync('/dev/tty', 'r+'))
    return true
  } catch {
    return false
  }
}

/** Some errors that prevent a start, such as ENOTDIR, are thrown; others are events. */
function started(command: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  try {
    return spawn(command, args, options)
  } catch (error) {
    throw error instanceof Error ? cannotRun(command, error) : error
  }
}

/** Returns whether the process exists. */
function send(target: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(target, signal)
  } catch {
    return false
  }
}

async function areGone(targets: readonly number[], withinMs: number): Promise<boolean> {
  const until = performance.now() + withinMs
  while (targets.some((target) => send(target, 0))) {
    if (performance.now() >= until) return false
    await pass(20)
  }
  return true
}

function cannotRun(command: string, error: NodeJS.ErrnoException): CannotRun {
  const missing = error.code === 'ENOENT'
  const why = missing ? 'command not found' : `cannot be executed (${error.code ?? error.message})`
  return new CannotRun(`${command}: ${why}`, missing, error)
}
