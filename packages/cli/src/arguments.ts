import { parseArgs } from 'node:util'
import { parseDuration } from './duration.ts'
import { UsageError } from './errors.ts'

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

type ParseOptions = Record<string, { type: 'string' | 'boolean'; short?: string }>

/** Arguments of one call, read by the options of its command. */
export class Arguments {
  readonly positionals: readonly string[]
  /** What follows `--`: never read for options. */
  readonly rest: readonly string[] | undefined
  readonly #values: Readonly<Record<string, unknown>>

  constructor(options: Options, args: readonly string[]) {
    const end = args.indexOf('--')
    this.rest = end === -1 ? undefined : args.slice(end + 1)
    const known: ParseOptions = {}
    for (const [name, { takes, short }] of Object.entries({ ...options, ...commonOptions }))
      known[name] = {
        type: takes === undefined ? 'boolean' : 'string',
        ...(short !== undefined && { short }),
      }
    try {
      const { values, positionals } = parseArgs({
        args: end === -1 ? [...args] : args.slice(0, end),
        options: known,
        allowPositionals: true,
      })
      this.#values = values
      this.positionals = positionals
    } catch (error) {
      throw new UsageError(error instanceof Error ? firstSentence(error.message) : 'bad arguments')
    }
  }

  flag(name: string): boolean {
    return this.#values[name] === true
  }

  text(name: string): string | undefined {
    const value = this.#values[name]
    return typeof value === 'string' ? value : undefined
  }

  durationMs(name: string): number | undefined {
    const text = this.text(name)
    return text === undefined ? undefined : parseDuration(`--${name}`, text)
  }

  integer(name: string, [least, most]: readonly [number, number]): number | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= least && value <= most) return value
    throw new UsageError(
      `--${name} must be a whole number from ${least} to ${most}, not ${JSON.stringify(text)}`,
    )
  }

  /** The positional arguments, which must be as many as `names`; one in brackets may be left out. */
  named(...names: readonly string[]): readonly (string | undefined)[] {
    const needed = names.filter((name) => !name.startsWith('[')).length
    if (this.positionals.length < needed)
      throw new UsageError(`${names[this.positionals.length] ?? 'an argument'} is missing`)
    const extra = this.positionals[names.length]
    if (extra !== undefined) throw new UsageError(`unexpected argument ${JSON.stringify(extra)}`)
    return names.map((_, n) => this.positionals[n])
  }
}

/** The rest is advice on escaping that hardly ever fits. */
function firstSentence(message: string): string {
  return message.split('. ')[0] ?? message
}
