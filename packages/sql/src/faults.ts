import { isLockError, LockError } from '@locks/core/adapter'

/** How one adapter tells of errors. */
export interface Dialect {
  /** The package, such as `@locks/postgres`. */
  readonly adapter: string
  /** What the server is called. */
  readonly server: string
  /** What an error may be told by: codes and numbers, never message text. The first is shown. */
  readonly codesOf: (error: unknown) => Readonly<Record<string, string | number>>
  /** For what no retry mends, such as missing tables: what to do about it. `URL` in it stands for the database. */
  readonly adviceOn: (error: unknown) => string | undefined
  /** For what may pass, such as a server that takes no writes for now: what to do if it does not. */
  readonly hintOn?: (error: unknown) => string | undefined
}

export interface Faults {
  /** Errors of drivers carry statements, values and more; only what is meant to be read goes on. */
  readonly toLockError: (error: unknown) => LockError
  readonly unavailable: (message: string) => LockError
  readonly invalid: (message: string) => LockError
  /** The same for one database, whose URL may be shown: it has no password in it. */
  readonly at: (url: string) => Faults
}

export function faultsOf(dialect: Dialect, url = 'URL'): Faults {
  const { adapter, server, codesOf, adviceOn, hintOn } = dialect
  return {
    toLockError(error) {
      if (isLockError(error)) return error
      const codes = codesOf(error)
      const message = error instanceof Error ? error.message : 'unknown error'
      const cause = Object.assign(new Error(message), codes)
      const [code] = Object.values(codes)
      const told = code === undefined ? message : `${message} (${code})`
      const advice = adviceOn(error)?.replaceAll('URL', () => url)
      if (advice !== undefined) {
        // What to do comes last: it may be a line to copy.
        const [what, ...todo] = advice.split('; ')
        const text = [`${adapter}: ${what}: ${told}`, ...todo].join('; ')
        return new LockError('LOCK_INVALID_ARGUMENT', text, { cause })
      }
      const hint = hintOn?.(error)
      const failed = hint === undefined ? `${server} failed` : `${server} failed; ${hint}`
      return new LockError('LOCK_UNAVAILABLE', `${failed}: ${told}`, { cause })
    },
    unavailable: (message) => new LockError('LOCK_UNAVAILABLE', `${adapter}: ${message}`),
    invalid: (message) => new LockError('LOCK_INVALID_ARGUMENT', `${adapter}: ${message}`),
    at: (place) => faultsOf(dialect, place),
  }
}
