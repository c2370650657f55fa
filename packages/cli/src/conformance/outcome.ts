import type { Area, HistoryEvent } from '@locks/core/conformance'
import type { CaseInfo } from './worker-protocol.ts'

/** How one rule came out. */
export interface Outcome extends Pick<CaseInfo, 'id' | 'area' | 'kind' | 'promise'> {
  readonly state: 'passed' | 'failed' | 'untested'
  readonly durationMs: number
  /** Why it failed, or why it could not be tried. */
  readonly reason?: string
  /** Runs that were void because the machine stood still, and why. */
  readonly voids?: readonly string[]
  /** What the processes of a contended case recorded. */
  readonly history?: readonly HistoryEvent[]
}

export interface Counts {
  readonly passed: number
  readonly failed: number
  readonly untested: number
}

export function count(outcomes: readonly Outcome[]): Counts {
  const of = (state: Outcome['state']): number => outcomes.filter((one) => one.state === state).length
  return { passed: of('passed'), failed: of('failed'), untested: of('untested') }
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
