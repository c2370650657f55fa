import {
  CERTIFICATE_REFUSED,
  errorsOf,
  isCertificateError,
  isLockError,
  LockError,
} from '@locks/core/adapter'
import type { AdapterErrors } from '@locks/core/adapter'

/** How one adapter reports errors of its server. */
export interface Dialect {
  /** The package, such as `@locks/postgres`. */
  readonly adapter: string
  /** What the server is called. */
  readonly server: string
  /** The codes and numbers of an error, never its message. The first is shown, the last is looked up below. */
  readonly codesOf: (error: Error) => Readonly<Record<string, Code>>
  /** What to do about an error that no retry mends, such as a missing table. `URL` in it stands for the database. */
  readonly advice: ReadonlyMap<Code, string>
  /** What to do if an error that may pass does not, such as a server that refuses writes for now. */
  readonly ifItLasts?: ReadonlyMap<Code, string>
  /** After these the statement was rolled back as a whole, so it can simply be run again. */
  readonly transient?: ReadonlySet<Code>
  /** A table is missing. */
  readonly missing?: ReadonlySet<Code>
  /** The tables are missing, or are not as the statement expects them. */
  readonly otherTables?: ReadonlySet<Code>
  /** The user may not create tables. */
  readonly forbidden?: ReadonlySet<Code>
}

/** What makes the tables, as a line to copy. */
export const MIGRATE = 'run: npx -p @locks/cli locks migrate URL'

/** A table of another program has a name that we would use. What it is comes after the first half. */
export const NAME_TAKEN: string = 'a name is taken; nothing was changed; set table or schema to another name'

/** A pool that the program has ended, in `advice`. */
export const POOL_ENDED: readonly [code: string, advice: string] = [
  'POOL_ENDED',
  'the given pool was ended, so no lock can be acquired; give a pool that is open',
]

export type Code = string | number

export interface SqlErrors extends AdapterErrors {
  /** The code that identifies an error, also within a `LockError`. */
  readonly codeOf: (error: unknown) => Code | undefined
  /** Whether an error has one of these codes. */
  readonly has: (error: unknown, codes: ReadonlySet<Code>) => boolean
  readonly isTransient: (error: unknown) => boolean
  /** Whether a table is missing. */
  readonly isMissing: (error: unknown) => boolean
  /** Whether the tables are missing, or are not as the statement expects them. */
  readonly isOfOtherTables: (error: unknown) => boolean
  /** A table of another program has one of our names. */
  readonly notOurs: (table: string) => LockError
  /** Whether the server refuses to create tables for this user. */
  readonly isForbidden: (error: unknown) => boolean
  /** Tables are missing, and the user may not create them. The cause has the `sql` that does. */
  readonly notCreated: (error: unknown, sql: string) => LockError
  /** Keeps message and codes only: errors of drivers carry statements and values, which may be secret. */
  readonly toLockError: (error: unknown) => LockError
  /** A reply that belongs to another statement. */
  readonly wrongReply: () => LockError
  /** The same errors for one database. `url` is shown, so it must not contain a password. */
  readonly at: (url: string) => SqlErrors
}

/** That a table is of another program. */
export function notOursText(adapter: string, table: string): string {
  return `${table} exists, and ${adapter} did not create it`
}

export function sqlErrors(dialect: Dialect, url = 'URL'): SqlErrors {
  const { adapter, server, advice, ifItLasts, transient, missing, otherTables, forbidden } = dialect
  const errors = errorsOf(adapter)
  const codesOf = (error: unknown): Readonly<Record<string, Code>> =>
    error instanceof Error ? dialect.codesOf(error) : {}
  const codeOf = (error: unknown): Code | undefined =>
    Object.values(codesOf(isLockError(error) ? error.cause : error)).at(-1)
  const has = (error: unknown, codes: ReadonlySet<Code> = new Set()): boolean =>
    codes.has(codeOf(error) ?? '')
  /** Message and codes of an error, and the message with the first code. */
  const shownOf = (error: unknown): { readonly cause: Error; readonly shown: string } => {
    const message = error instanceof Error ? error.message : 'unknown error'
    const [first] = Object.values(codesOf(error))
    const cause = Object.assign(new Error(message), codesOf(error))
    return { cause, shown: first === undefined ? message : `${message} (${first})` }
  }
  return {
    ...errors,
    codeOf,
    has,
    isTransient: (error) => has(error, transient),
    isMissing: (error) => has(error, missing),
    isOfOtherTables: (error) => has(error, otherTables),
    notOurs(table) {
      const [what, ...todo] = NAME_TAKEN.split('; ')
      const shown = `${what}: ${notOursText(adapter, table)}, so no lock can be kept there`
      return errors.invalid([shown, ...todo].join('; '))
    },
    isForbidden: (error) => has(error, forbidden),
    notCreated(error, sql) {
      const { cause, shown } = shownOf(isLockError(error) ? error.cause : error)
      // Not enumerable: some hundred lines of SQL would hide the message in a log.
      Object.defineProperty(cause, 'sql', { value: sql })
      const call = `await migrate({ url: ${url.startsWith("'") ? url : `'${url}'`} }) of ${adapter}`
      return errors.invalid(
        `the tables are missing, and this user may not create them: ${shown}; as a user that may, ${call}, ` +
          `or execute the SQL in error.cause.sql, or ${MIGRATE.replace('URL', () => url)}`,
        cause,
      )
    },
    toLockError(error) {
      if (isLockError(error)) return error
      const { cause, shown } = shownOf(error)
      const code = codeOf(error) ?? ''
      const known = isCertificateError(error) ? CERTIFICATE_REFUSED : advice.get(code)
      const advised = known?.replaceAll('URL', () => url)
      if (advised !== undefined) {
        // What to do comes last: it may be a line to copy.
        const [what, ...todo] = advised.split('; ')
        return errors.invalid([`${what}: ${shown}`, ...todo].join('; '), cause)
      }
      const todo = ifItLasts?.get(code)
      const failed = todo === undefined ? `${server} failed` : `${server} failed; ${todo}`
      return new LockError('LOCK_UNAVAILABLE', `${failed}: ${shown}`, { cause })
    },
    wrongReply: () =>
      errors.unavailable(
        'the server answered another statement than the one sent, so the outcome is unknown; the connection was closed',
      ),
    at: (database) => sqlErrors(dialect, database),
  }
}
