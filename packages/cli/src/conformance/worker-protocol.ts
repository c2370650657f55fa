import type { Area, RuleKind } from '@locks/core/conformance'
import type { Outcome } from './outcome.ts'
import type { Left } from './tidy.ts'

/** What a worker tests. */
export interface WorkerOrder {
  readonly target: string
  readonly options: Readonly<Record<string, unknown>>
  readonly ttlMs?: number
}

/** The data of a case, as sent between processes. */
export interface CaseInfo {
  readonly id: string
  readonly area: Area
  readonly kind: RuleKind
  /** The promise, without id and kind. */
  readonly promise: string
  readonly timeoutMs: number
  readonly untested?: string
  readonly applicable: boolean
}

export type WorkerCall =
  | { readonly type: 'begin'; readonly order: WorkerOrder }
  | { readonly type: 'run'; readonly id: string }
  | { readonly type: 'tidy'; readonly names: readonly string[] }

export type WorkerMessage =
  | {
      readonly type: 'ready'
      readonly subject: string
      readonly ttlMs: number
      readonly cases: readonly CaseInfo[]
      /** Whether names outlive the suite: the store is neither in its process nor started for it. */
      readonly lasts: boolean
    }
  /** A rule is about to use this name. */
  | { readonly type: 'name'; readonly name: string }
  /** `left` is what could not be dropped. */
  | { readonly type: 'tidied'; readonly left: readonly Left[] }
  | { readonly type: 'outcome'; readonly outcome: Outcome }
  /** An uncaught error; the process ends. */
  | { readonly type: 'crashed'; readonly message: string }
  /** `misused`: the command line is invalid. */
  | { readonly type: 'failed'; readonly message: string; readonly misused: boolean }
