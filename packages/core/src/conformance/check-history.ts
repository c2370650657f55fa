import type { HistoryEvent } from './history.ts'
import { replayHistory } from './replay-history.ts'
import type { Fault, Hold, Invariant, NameHistory, Report, Span, Wait } from './replay-history.ts'

export type { Invariant } from './replay-history.ts'

export interface Violation {
  readonly invariant: Invariant
  readonly message: string
  /** The events that show it. */
  readonly events: readonly HistoryEvent[]
}

/** A bound that is not given is not checked. */
export interface CheckOptions {
  /** `coverage`: the fewest faults of a meaningful run. A crash counts as a fault. */
  readonly floors?: { readonly grants: number; readonly contendedWaits: number; readonly faults: number }
  /** `liveness`: how long a free name may stay ungranted while a client waits and no fault is active. */
  readonly maxIdleMs?: number
  /** `liveness`: how long one waiter may wait at most, with or without faults. */
  readonly maxWaitMs?: number
  /** `crash-release`: the same for a name whose holder crashed, counted from the crash. */
  readonly crashReleaseMs?: number
}

export interface Summary {
  /** Acquires that succeeded, re-entries included. */
  readonly grants: number
  /** Waits that met another holder and ended in a grant. */
  readonly contendedWaits: number
  readonly faults: number
  /** Most holders a name had at the same time: 1, if exclusion held. */
  readonly maxHolders: number
  /** Waiting time of the acquires that succeeded. */
  readonly waitMs: { readonly p50: number; readonly p90: number; readonly p99: number; readonly max: number }
}

export function checkHistory(events: readonly HistoryEvent[], options: CheckOptions = {}): Violation[] {
  const violations: Violation[] = []
  const report: Report = (invariant, message, ...proof) =>
    void violations.push({ invariant, message, events: proof })
  const { names, faults, until } = replayHistory(events, report)
  for (const [name, history] of names) {
    const concerning = faults.filter(({ begin }) => begin.name === undefined || begin.name === name)
    checkExclusion(history, concerning, report)
    checkFenceOrder(history, report)
    checkLiveness(history, concerning, until, options, report)
  }
  const summary = summarise(events)
  for (const key of ['grants', 'contendedWaits', 'faults'] as const) {
    const floor = options.floors?.[key] ?? 0
    if (summary[key] < floor) report('coverage', `only ${summary[key]} ${key}, at least ${floor} make a test`)
  }
  return violations
}

export function summarise(events: readonly HistoryEvent[]): Summary {
  const histories = [...replayHistory(events).names.values()]
  const granted = histories.flatMap(({ waits }) => waits.filter((wait) => wait.granted))
  const waited = granted.map((wait) => wait.until - wait.from).toSorted((a, b) => a - b)
  const rank = (share: number): number => waited[Math.ceil(share * waited.length) - 1] ?? 0
  const isFault = (event: HistoryEvent): boolean =>
    event.type === 'crash' || (event.type === 'fault' && event.phase === 'begin')
  let maxHolders = 0
  for (const { holds } of histories)
    for (const [, others] of sweep(holds)) maxHolders = Math.max(maxHolders, others.length + 1)
  return {
    grants: events.filter((event) => event.type === 'granted').length,
    contendedWaits: granted.filter((wait) => wait.contended).length,
    faults: events.filter(isFault).length,
    maxHolders,
    waitMs: { p50: rank(0.5), p90: rank(0.9), p99: rank(0.99), max: rank(1) },
  }
}

/** Rebuilds holds, waits and faults, and reports violations that only the state at the time of an event can show. */

function checkExclusion({ holds }: NameHistory, faults: readonly Fault[], report: Report): void {
  for (const [hold, others] of sweep(holds)) {
    for (const other of others) {
      const proof = [other.granted, hold.granted]
      const early = other.partlyReleased
      if (early && early.t <= hold.from)
        report(
          'balance',
          `${other.owner} freed ${hold.granted.name} before its last release`,
          ...proof,
          early,
        )
      // Only a fault after the first grant and before the second can have let the second in.
      if (
        faults.some(
          ({ begin, from, until }) => begin.class === 'F' && from <= hold.from && until >= other.from,
        )
      )
        continue
      const overlapMs = Math.min(hold.until, other.until) - hold.from
      report(
        'exclusion',
        `${other.owner} and ${hold.owner} both held ${hold.granted.name} for ${round(overlapMs)} ms`,
        ...proof,
      )
    }
  }
}

function checkFenceOrder({ holds }: NameHistory, report: Report): void {
  let highest: Hold | undefined
  let open: Hold[] = []
  for (const hold of holds) {
    for (const over of open.filter((other) => other.until <= hold.from))
      if (!highest || over.granted.fence > highest.granted.fence) highest = over
    open = open.filter((other) => other.until > hold.from)
    // Replies may overtake each other. Of holds that overlap, only those granted before this one was requested are
    // certainly older; and a grant that arrived after its own deadline may be older than all before it.
    const older = open.filter((other) => other.from <= hold.calledAt)
    const earlier = hold.until > hold.from ? [...older, ...(highest ? [highest] : [])] : []
    for (const { granted } of earlier)
      if (granted.fence > hold.granted.fence)
        report(
          'fence-order',
          `fence ${hold.granted.fence} came after ${granted.fence}`,
          granted,
          hold.granted,
        )
    open.push(hold)
  }
}

function checkLiveness(
  { holds, waits }: NameHistory,
  faults: readonly Fault[],
  until: number,
  { maxIdleMs = Infinity, maxWaitMs = Infinity, crashReleaseMs = Infinity }: CheckOptions,
  report: Report,
): void {
  for (const wait of waits) {
    const waitedMs = Math.min(wait.until, until) - wait.from
    if (waitedMs > maxWaitMs) report('liveness', `${wait.owner} waited ${round(waitedMs)} ms`, wait.called)
  }
  let freeFrom = -Infinity
  for (const next of [...holds, undefined]) {
    const idle = longestWait(waits, faults, { from: freeFrom, until: next?.from ?? until }, maxIdleMs)
    if (idle)
      report(
        'liveness',
        `no waiter got the free lock for ${round(idle.ms)} ms`,
        ...idle.callers,
        ...(next ? [next.granted] : []),
      )
    freeFrom = Math.max(freeFrom, next?.freeFrom ?? until)
  }
  for (const hold of holds) {
    if (hold.endedBy !== 'crash') continue
    const next = holds.find((other) => other.from > hold.until)
    const idle = longestWait(waits, faults, { from: hold.until, until: next?.from ?? until }, crashReleaseMs)
    if (idle)
      report(
        'crash-release',
        `no waiter got the lock of a crashed holder for ${round(idle.ms)} ms`,
        hold.granted,
        ...idle.callers,
      )
  }
}

/** The longest part of a gap in which a client waited and no fault was active, if longer than `limitMs`. */
function longestWait(
  waits: readonly Wait[],
  faults: readonly Fault[],
  gap: Span,
  limitMs: number,
): { ms: number; callers: HistoryEvent[] } | undefined {
  if (gap.until - gap.from <= limitMs) return undefined
  const inGap = waits.filter((wait) => wait.from < gap.until && wait.until > gap.from)
  let stretches: Span[] = []
  for (const wait of inGap) {
    const last = stretches.at(-1)
    const from = Math.max(wait.from, gap.from)
    const until = Math.min(wait.until, gap.until)
    if (last && from <= last.until) last.until = Math.max(last.until, until)
    else stretches.push({ from, until })
  }
  for (const fault of faults)
    stretches = stretches
      .flatMap(({ from, until }) => [
        { from, until: Math.min(until, fault.from) },
        { from: Math.max(from, fault.until), until },
      ])
      // Otherwise they would double with every fault.
      .filter(({ from, until }) => from < until)
  const ms = Math.max(0, ...stretches.map(({ from, until }) => until - from))
  return ms > limitMs ? { ms, callers: inGap.map((wait) => wait.called) } : undefined
}

/** Each hold that was ever valid, with the holds still valid when it was granted. */
function* sweep(holds: readonly Hold[]): Generator<readonly [Hold, readonly Hold[]]> {
  let valid: Hold[] = []
  for (const hold of holds) {
    if (hold.until <= hold.from) continue
    valid = valid.filter((other) => other.until > hold.from)
    yield [hold, valid]
    valid.push(hold)
  }
}

function round(ms: number): number {
  return Number(ms.toFixed(2))
}
