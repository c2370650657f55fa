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
  /** Its exit code, or 128 + n after signal n, as a shell has it. Rejects when it could not be started. */
  readonly ended: Promise<number>
  /** Passes a signal on that this program got. */
  pass(signal: NodeJS.Signals): void
  /** SIGTERM, and SIGKILL after `graceMs`, for all of it. Resolves when nothing of it runs any more. */
  terminate(graceMs: number): Promise<void>
  stop(): void
  resume(): void
}

/**
 * Without a terminal the command leads a group of its own, so that it can be ended as a whole. On a terminal it
 * stays in ours, or it could use neither the keyboard nor /dev/tty; there Ctrl-C and Ctrl-\ reach it by themselves.
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

  const everybody = (): readonly number[] => {
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
      const targets = everybody()
      // What was stopped must wake up to obey.
      for (const target of targets) if (send(target, 'SIGTERM')) send(target, 'SIGCONT')
      if (await areGone(targets, graceMs)) return
      const remaining = new Set([...targets, ...everybody()])
      for (const target of remaining) send(target, 'SIGKILL')
      // Those that nobody reaps seem alive for ever.
      await areGone([...remaining], 1_000)
    },
    stop: () => void everybody().map((target) => send(target, 'SIGSTOP')),
    resume: () => void everybody().map((target) => send(target, 'SIGCONT')),
  }
}

/** Also when stdin is a pipe or a file: a command asks for a password at /dev/tty. A session of its own has none. */
export function hasTerminal(): boolean {
  // Not by process.stdin, which would be opened here too.
  if (isatty(0)) return true
  try {
    closeSync(openSync('/dev/tty', 'r+'))
    return true
  } catch {
    return false
  }
}

/** Some of what keeps a command from starting is thrown at once, such as ENOTDIR; the rest comes as an event. */
function started(command: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  try {
    return spawn(command, args, options)
  } catch (error) {
    throw error instanceof Error ? cannotRun(command, error) : error
  }
}

/** Whether there was anybody to get it. */
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
