import type { Lease } from '@locks/core'
import { hasTerminal } from './child.ts'
import type { RunningChild } from './child.ts'
import type { Invocation } from './invocation.ts'

const LONGEST_LOOK_MS = 60_000

/**
 * Waits for the command to end, forwards signals, and ends the command when the lock is lost. If the lock cannot be
 * renewed, the command is ended early enough to be gone before the next holder begins.
 */
export async function supervise(
  child: RunningChild,
  lease: Lease,
  askedGraceMs: number,
  invocation: Pick<Invocation, 'forward'>,
  onStop: (why: string) => void,
): Promise<{ readonly code: number; readonly lost: boolean }> {
  let graceMs = 0
  let stopping: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined

  function stop(why: string): void {
    if (stopping !== undefined) return
    // First, since reporting may fail.
    stopping = child.terminate(graceMs)
    onStop(why)
  }
  const onLoss = (): void => {
    const reason: unknown = lease.signal.reason
    stop(reason instanceof Error ? reason.message : 'the lock is lost')
  }
  function look(): void {
    const { remainingMs } = lease
    // A pushed grant begins with a short claim, which the first renewal extends.
    graceMs = Math.max(graceMs, Math.min(askedGraceMs, remainingMs / 3))
    const leftMs = remainingMs - graceMs
    if (leftMs <= 0) return stop('the lock could not be renewed')
    timer = setTimeout(look, Math.min(leftMs, LONGEST_LOOK_MS))
  }
  // Ctrl-Z, if the terminal does not send it to the command. The command stops too, since we cannot renew meanwhile.
  const onSuspend = (): void => {
    child.stop()
    process.kill(process.pid, 'SIGSTOP')
  }
  const onContinue = (): void => {
    if (lease.state === 'held' || lease.state === 'jeopardy') child.resume()
    else onLoss()
  }

  // Anything that ends this program, except SIGKILL, ends the command too.
  const onExit = (): void => child.pass('SIGTERM')

  invocation.forward((signal) => child.pass(signal))
  process.once('exit', onExit)
  lease.signal.addEventListener('abort', onLoss)
  if (!hasTerminal()) process.on('SIGTSTP', onSuspend).on('SIGCONT', onContinue)
  look()
  try {
    const code = await child.ended
    await stopping
    return { code, lost: stopping !== undefined }
  } finally {
    clearTimeout(timer)
    lease.signal.removeEventListener('abort', onLoss)
    process.off('SIGTSTP', onSuspend).off('SIGCONT', onContinue).off('exit', onExit)
    invocation.forward(undefined)
  }
}
