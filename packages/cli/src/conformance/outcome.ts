import type { Area, HistoryEvent } from '@locks/core/conformance'
import type { CaseInfo } from './worker-protocol.ts'

/** `not applicable`: the adapter does not claim the capability. `not tried`: this run lacks what the rule needs. */
export type State = 'passed' | 'failed' | 'not applicable' | 'not tried'

/** The outcome of one rule. */
export interface Outcome extends Pick<CaseInfo, 'id' | 'area' | 'kind' | 'promise'> {
  readonly state: State
  readonly durationMs: number
  /** Why it failed, does not apply or was not tried. */
  readonly reason?: string
  /** Why runs were void. */
  readonly voids?: readonly string[]
  /** What the processes of a contended case recorded. */
  readonly history?: readonly HistoryEvent[]
}

/** What was tested, and how. */
export interface RunInfo {
  readonly subject: string
  readonly node: string
  readonly ttlMs: number
  readonly jobs: number
}

export interface Counts {
  readonly passed: number
  readonly failed: number
  readonly notApplicable: number
  readonly notTried: number
}

export function count(outcomes: readonly Outcome[]): Counts {
  const of = (state: State): number => outcomes.filter((one) => one.state === state).length
  return {
    passed: of('passed'),
    failed: of('failed'),
    notApplicable: of('not applicable'),
    notTried: of('not tried'),
  }
}

export function byArea(outcomes: readonly Outcome[]): ReadonlyMap<Area, readonly Outcome[]> {
  const areas = new Map<Area, Outcome[]>()
  for (const one of outcomes) areas.set(one.area, [...(areas.get(one.area) ?? []), one])
  return areas
}

export function outcomeOf(
  { id, area, kind, promise }: CaseInfo,
  came: Pick<Outcome, 'state' | 'durationMs' | 'reason' | 'voids' | 'history'>,
): Outcome {
  return { id, area, kind, promise, ...came }
}

/** The outcome of a rule that cannot run here, or undefined if it can. */
export function leftOut(info: CaseInfo): Outcome | undefined {
  if (info.untested === undefined) return undefined
  const state = info.applicable ? 'not tried' : 'not applicable'
  return outcomeOf(info, { state, durationMs: 0, reason: info.untested })
}
