import { didYouMean } from '@locks/core/adapter'
import { parseArgs } from 'node:util'
import { durationOf } from './duration.ts'
import { UsageError } from './errors.ts'
import { commonOptions } from './options.ts'
import type { Options } from './options.ts'
import { quoted } from './url.ts'

type ParseOptions = Record<string, { type: 'string' | 'boolean'; short?: string }>

/** What a command reads from its arguments. */
export interface Reads {
  readonly options: Options
  /** Whether the words after `--` are the command line of another program. Otherwise they are arguments. */
  readonly hasRest?: boolean
}

/** The arguments of one invocation, parsed with the options of its command. */
export class Arguments {
  readonly positionals: readonly string[]
  /** The command line of another program: never parsed for options. */
  readonly rest: readonly string[] | undefined
  readonly #values: Readonly<Record<string, unknown>>

  constructor({ options, hasRest = false }: Reads, args: readonly string[]) {
    const { before, behind } = split(args)
    const { values, positionals } = parsed({ ...options, ...commonOptions }, before)
    this.#values = values
    if (!hasRest) {
      this.positionals = [...positionals, ...(behind ?? [])]
      return
    }
    // A name that begins with a dash is between two of them: -- -name -- command.
    const second = split(positionals.length === 0 ? (behind ?? []) : [])
    this.positionals = second.behind === undefined ? positionals : second.before
    this.rest = second.behind ?? behind
  }

  flag(name: string): boolean {
    return this.#values[name] === true
  }

  text(name: string): string | undefined {
    const value = this.#values[name]
    return typeof value === 'string' ? value : undefined
  }

  /** Must be within `limits`, which are durations too. */
  durationMs(name: string, limits: readonly [least: string, most: string]): number | undefined {
    const text = this.text(name)
    return text === undefined ? undefined : durationOf(`--${name}`, text, limits)
  }

  integer(name: string, [least, most]: readonly [number, number]): number | undefined {
    const text = this.text(name)
    if (text === undefined) return undefined
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= least && value <= most) return value
    throw new UsageError(`--${name} must be a whole number from ${least} to ${most}, not ${quoted(text)}`)
  }

  /** The positional arguments, one for each of `names`; a name in brackets is optional. */
  named(...names: readonly string[]): readonly (string | undefined)[] {
    const needed = names.filter((name) => !name.startsWith('[')).length
    if (this.positionals.length < needed)
      throw new UsageError(`${names[this.positionals.length] ?? 'an argument'} is missing`)
    const extra = this.positionals[names.length]
    if (extra !== undefined) throw new UsageError(`unexpected argument ${quoted(extra)}`)
    return names.map((_, n) => this.positionals[n])
  }
}

interface Split {
  readonly before: readonly string[]
  /** Undefined without a `--`. */
  readonly behind: readonly string[] | undefined
}

function split(args: readonly string[]): Split {
  const end = args.indexOf('--')
  return end === -1
    ? { before: args, behind: undefined }
    : { before: args.slice(0, end), behind: args.slice(end + 1) }
}

function parsed(
  options: Options,
  args: readonly string[],
): { readonly values: Readonly<Record<string, unknown>>; readonly positionals: readonly string[] } {
  const known: ParseOptions = {}
  for (const [name, { takes, short }] of Object.entries(options))
    known[name] = {
      type: takes === undefined ? 'boolean' : 'string',
      ...(short !== undefined && { short }),
    }
  try {
    return parseArgs({ args: [...args], options: known, allowPositionals: true })
  } catch (error) {
    throw new UsageError(mistakeIn(options, error), { cause: error })
  }
}

/** Our own message: Node's differs between versions, and its advice rarely fits. */
function mistakeIn(options: Options, error: unknown): string {
  if (!(error instanceof Error)) return 'invalid arguments'
  const [, given = '', name = ''] = /'(?:-\w, )?(--?([^'\s]+))/.exec(error.message) ?? []
  const option = Object.hasOwn(options, name) ? options[name] : undefined
  if (option !== undefined)
    return option.takes === undefined
      ? `--${name} takes no value`
      : `--${name} needs a value: --${name}=${option.takes}`
  if (!given.startsWith('--'))
    return `unknown option ${given}; put an argument that begins with a dash after --`
  const known = Object.keys(options).map((each) => `--${each}`)
  return `unknown option ${given}${didYouMean(given, known)}`
}
