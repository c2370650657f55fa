import type { Area, RuleKind } from '@locks/core/conformance'

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
