import { parseArgs } from 'node:util'
import { durationOf } from './duration.ts'
import { UsageError } from './errors.ts'
import { commonOptions } from './options.ts'
import type { Options } from './options.ts'

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
    return text === undefined ? undefined : durationOf(`--${name}`, text)
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
