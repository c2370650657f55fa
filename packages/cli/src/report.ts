import { isLockError } from '@locks/core'
import { commands } from './command.ts'
import { CannotRun, Interrupted, UsageError } from './errors.ts'
import { exitCodes, signalCode } from './exit-codes.ts'
import { printable, toJson } from './output.ts'
import type { Invocation } from './invocation.ts'

/** Reports an error, as text or JSON, and returns the exit code. */
export function report(
  error: unknown,
  name: string,
  argv: readonly string[],
  invocation: Invocation,
): number {
  const code = exitCodeOf(error)
  // The reader closed the pipe, as head does: print nothing more.
  if (error instanceof Interrupted && error.by === 'SIGPIPE') return code
  const message = messageOf(error)
  if (wantsJson(argv)) {
    const document = { error: { message, exitCode: code } }
    // The standard output of `run` belongs to its command.
    if (name === 'run') invocation.note(toJson(document))
    else invocation.printJson(document)
    return code
  }
  invocation.note(`${invocation.paintError('red', 'locks:')} ${lines(message)}`)
  if (error instanceof UsageError) invocation.note(`See: locks ${commands.has(name) ? `${name} ` : ''}--help`)
  if (code === exitCodes.unavailable && name !== 'doctor')
    invocation.note('Check that the server runs, and the address and credentials. See: locks doctor')
  return code
}

/** Reports that a backend could not be closed. The result and the exit code do not change. */
export function reportNotClosed(error: unknown, argv: readonly string[], invocation: Invocation): void {
  const reason = messageOf(error)
  if (wantsJson(argv)) invocation.note(toJson({ event: 'not-closed', reason }))
  else invocation.note(`${invocation.paintError('yellow', 'locks:')} not closed: ${lines(reason)}`)
}

function wantsJson(argv: readonly string[]): boolean {
  return (argv.includes('--') ? argv.slice(0, argv.indexOf('--')) : argv).includes('--json')
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Messages of adapters and servers may have several lines, and must not control the terminal. */
function lines(message: string): string {
  return message
    .split('\n')
    .map((line) => printable(line))
    .join('\n')
}

function exitCodeOf(error: unknown): number {
  if (error instanceof Interrupted) return signalCode(error.by)
  if (error instanceof UsageError) return exitCodes.usage
  if (error instanceof CannotRun) return error.missing ? exitCodes.notFound : exitCodes.cannotExecute
  if (!isLockError(error)) return exitCodes.failure
  switch (error.code) {
    case 'LOCK_TIMEOUT':
      return exitCodes.busy
    case 'LOCK_LOST':
      return exitCodes.lost
    case 'LOCK_UNAVAILABLE':
      return exitCodes.unavailable
    case 'LOCK_INVALID_ARGUMENT':
      return exitCodes.usage
    default:
      return exitCodes.failure
  }
}
