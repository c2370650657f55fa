import type { Duration } from './duration.ts'

/** What an option of any kind may have. */
interface Common {
  /** The default in words, where it is not one value: `a majority`. */
  readonly otherwise?: string
  /** `true`: it may stand behind the `?` of a URL. `'only'`: it stands nowhere else. */
  readonly inUrl?: true | 'only'
  readonly required?: true
  /** It says where the store is. Exactly one of these options must be given. */
  readonly place?: true
  /** It goes only with these values of the option `by`; `undefined` stands for none given. */
  readonly only?: readonly (string | undefined)[]
  /** It must be left out where this option is given, such as a client of the program. */
  readonly notWith?: string
}

/** One option, as a row of a table. The comment above a row says what the option does, for types and READMEs. */
export type Option =
  | (Common & {
      /** Whole milliseconds, or a text such as `'10s'`. */
      readonly kind: 'duration'
      readonly range: readonly [min: number, max: number]
      /** 0 is allowed too, below the range. */
      readonly zero?: true
      readonly default?: number
    })
  | (Common & {
      readonly kind: 'integer'
      readonly range: readonly [min: number, max: number]
      readonly default?: number
    })
  | (Common & { readonly kind: 'boolean'; readonly default?: boolean })
  | (Common & {
      readonly kind: 'choice'
      /** `false` among them switches something off that can be on in several ways. */
      readonly of: readonly (string | false)[]
      readonly default?: string | false
    })
  | (Common & {
      readonly kind: 'text'
      /** A regular expression for the whole text. */
      readonly matches?: string
      /** How a message says what is allowed: `be a path`. */
      readonly must?: string
      readonly default?: string
    })
  | (Common & {
      /** Anything else, such as a client of the program. */
      readonly kind: 'value'
      /** Whether it is what it must be. Without it, the adapter checks it. */
      readonly is?: (value: unknown) => boolean
      readonly must: string
      /** Its TypeScript type, for the generated interface. */
      readonly type: string
      /** Its type in a config. Without it, the option is for code only. */
      readonly json?: string
    })

export type OptionTable = Readonly<Record<string, Option>>

/** Everything an adapter can be given. Types, checks, URL keys, defaults and documentation follow from it. */
export interface Declaration {
  /** The package; messages begin with it. */
  readonly adapter: string
  /** Options as code, for the message about something else. */
  readonly example?: string
  /** The choice that decides which options with `only` may be given. */
  readonly by?: string
  readonly options: OptionTable
}

type ValueOf<O> = O extends { readonly kind: 'duration' | 'integer' }
  ? number
  : O extends { readonly kind: 'boolean' }
    ? boolean
    : O extends { readonly kind: 'choice'; readonly of: readonly (infer V)[] }
      ? V
      : O extends { readonly kind: 'text' }
        ? string
        : O extends { readonly is: (value: unknown) => value is infer V }
          ? V
          : unknown

type IsSure<O> = O extends { readonly default: unknown }
  ? true
  : O extends { readonly required: true; readonly only?: never }
    ? true
    : false

/** The values of a table after the checks, with defaults. */
export type Settled<T> = {
  readonly [K in keyof T]: IsSure<T[K]> extends true ? ValueOf<T[K]> : ValueOf<T[K]> | undefined
}

/** What a program may pass, by the table alone. The generated interfaces are tested against it. */
export type Given<T> = {
  readonly [K in keyof T as T[K] extends { readonly inUrl: 'only' } ? never : K]?: T[K] extends {
    readonly kind: 'duration'
  }
    ? Duration
    : ValueOf<T[K]>
}
