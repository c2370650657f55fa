import { errorsOf, isLockError, LockError } from '@locks/core/adapter'
import type { AdapterErrors } from '@locks/core/adapter'

/** How one adapter reports errors of its server. */
export interface Dialect {
  /** The package, such as `@locks/postgres`. */
  readonly adapter: string
  /** What the server is called. */
  readonly server: string
  /** The codes and numbers that identify an error; never its message. The first one is shown. */
  readonly codesOf: (error: unknown) => Readonly<Record<string, string | number>>
  /** What to do about an error that no retry mends, such as a missing table. `URL` in it stands for the database. */
  readonly adviceOn: (error: unknown) => string | undefined
  /** What to do if an error that may pass does not, such as a server that refuses writes for now. */
  readonly hintOn?: (error: unknown) => string | undefined
}

export interface SqlErrors extends AdapterErrors {
  /** Keeps message and codes only: errors of drivers carry statements and values, which may be secret. */
  readonly toLockError: (error: unknown) => LockError
  /** A reply that belongs to another statement. */
  readonly wrongReply: () => LockError
  /** The same errors for one database. `url` is shown, so it must not contain a password. */
  readonly at: (url: string) => SqlErrors
}

export function sqlErrors(dialect: Dialect, url = 'URL'): SqlErrors {
  const { adapter, server, codesOf, adviceOn, hintOn } = dialect
  const errors = errorsOf(adapter)
  return {
    ...errors,
    toLockError(error) {
      if (isLockError(error)) return error
      const codes = codesOf(error)
      const message = error instanceof Error ? error.message : 'unknown error'
      const cause = Object.assign(new Error(message), codes)
      const [code] = Object.values(codes)
      const shown = code === undefined ? message : `${message} (${code})`
      const advice = adviceOn(error)?.replaceAll('URL', () => url)
      if (advice !== undefined) {
        // What to do comes last: it may be a line to copy.
        const [what, ...todo] = advice.split('; ')
        return errors.invalid([`${what}: ${shown}`, ...todo].join('; '), cause)
      }
      const hint = hintOn?.(error)
      const failed = hint === undefined ? `${server} failed` : `${server} failed; ${hint}`
      return new LockError('LOCK_UNAVAILABLE', `${failed}: ${shown}`, { cause })
    },
    wrongReply: () =>
      errors.unavailable(
        'the server answered another statement than the one sent, so the outcome is unknown; the connection was closed',
      ),
    at: (place) => sqlErrors(dialect, place),
  }
}
