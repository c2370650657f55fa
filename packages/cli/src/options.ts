/** An option of a command: what it takes, if anything, and what `--help` says of it. */
export interface Option {
  readonly takes?: string
  readonly short?: string
  readonly help: string
}

export type Options = Readonly<Record<string, Option>>

/** What every command knows. */
export const commonOptions: Options = {
  json: { help: 'one JSON document instead of text' },
  help: { short: 'h', help: 'this text' },
}
