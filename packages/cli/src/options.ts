/** An option of a command: the name of its value, if it has one, and its help text. */
export interface Option {
  readonly takes?: string
  readonly short?: string
  readonly help: string
}

export type Options = Readonly<Record<string, Option>>

/** Options of every command. */
export const commonOptions: Options = {
  json: { help: 'print one JSON document instead of text' },
  help: { short: 'h', help: 'print this help' },
}
