/** The command line is invalid; the message says why. */
export class UsageError extends Error {}

/** A signal asked this program to stop. */
export class Interrupted extends Error {
  readonly by: NodeJS.Signals

  constructor(by: NodeJS.Signals) {
    super(`interrupted by ${by}`)
    this.by = by
  }
}

/** The command of `locks run` could not be started. */
export class CannotRun extends Error {
  readonly missing: boolean

  constructor(message: string, missing: boolean, cause: unknown) {
    super(message, { cause })
    this.missing = missing
  }
}
