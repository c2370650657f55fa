import { checkHistory, replayHistory, summarise } from '@locks/core/conformance'
import type { HistoryEvent, Hold } from '@locks/core/conformance'
import { percentile } from '../statistics.ts'
import { checkBusy } from './check-busy.ts'
import type { Lingering } from './check-busy.ts'
import { isWireFault } from './faults.ts'

/** Something that must never happen, with the events that show it. */
export interface Violation {
  readonly check: string
  readonly message: string
  readonly events: readonly HistoryEvent[]
}

export interface Bounds extends Lingering {
  readonly ttlMs: number
  readonly fenced: boolean
  /** A hold ends with its connection, and its holder may learn of that up to `ttlMs` later. */
  readonly byConnection: boolean
}

export interface Verdict {
  readonly violations: readonly Violation[]
  /** Overlaps that a lock bound to a connection allows: after a fault of a connection or server, at most `ttlMs`. */
  readonly withinBound: readonly Violation[]
  readonly grants: number
  readonly contendedWaits: number
  readonly busy: number
  readonly timeouts: number
  readonly losses: number
  readonly refusedWrites: number
  /** From the end of a fault to the next grant of the affected worker. */
  readonly recoveryMs: { readonly p50: number; readonly max: number }
}

const titles: Readonly<Record<string, string>> = {
  exclusion: 'two holders',
  'fence-order': 'fence order',
  exposure: 'stale write',
  balance: 'release',
}

/** Worst first. */
const order = ['held by nobody', ...Object.values(titles)].toSorted(
  (a, b) => Number(b === titles['exclusion']) - Number(a === titles['exclusion']),
)

export function judge(events: readonly HistoryEvent[], bounds: Bounds): Verdict {
  const replay = replayHistory(events)
  const holds = new Map<HistoryEvent, Hold>()
  for (const { holds: own } of replay.names.values()) for (const hold of own) holds.set(hold.granted, hold)
  const violations: Violation[] = checkBusy(events, bounds)
  const withinBound: Violation[] = []
  for (const { invariant, message, events: proof } of checkHistory(events)) {
    // Without fencing, only exclusion can be checked.
    if (!bounds.fenced && invariant !== 'exclusion') continue
    const check = titles[invariant] ?? invariant
    const [first, second] = proof.map((event) => holds.get(event))
    const isOverlap = invariant === 'exclusion' || invariant === 'balance'
    if (!isOverlap || first === undefined || second === undefined) {
      violations.push({ check, message, events: proof })
      continue
    }
    const found = { check, message, events: [...proof, ...lastChecks(events, [first, second])] }
    if (!bounds.byConnection || !isWithinBound(first, second, replay.faults, bounds.ttlMs))
      violations.push(found)
    // A re-entered hold is also reported as released too early; count it once.
    else if (invariant === 'exclusion') withinBound.push(found)
  }
  violations.sort((a, b) => order.indexOf(a.check) - order.indexOf(b.check))
  const { grants, contendedWaits } = summarise(events)
  const failed = (code: string): number =>
    events.filter((event) => event.type === 'acquire-failed' && event.code === code).length
  return {
    violations,
    withinBound,
    grants,
    contendedWaits,
    busy: failed('busy'),
    timeouts: failed('LOCK_TIMEOUT'),
    losses: events.filter(({ type }) => type === 'lost').length,
    refusedWrites: events.filter(({ type }) => type === 'resource-rejected').length,
    recoveryMs: recovery(events),
  }
}

/** The last checks of two holders, which show how long each of them held. */
function lastChecks(events: readonly HistoryEvent[], both: readonly Hold[]): readonly HistoryEvent[] {
  return both.flatMap(({ granted, until }) =>
    events.filter(
      (event) =>
        event.type === 'renewed' &&
        event.process === granted.process &&
        event.task === granted.task &&
        event.fence === granted.fence &&
        event.deadline === until,
    ),
  )
}

function isWithinBound(
  first: Hold,
  second: Hold,
  faults: ReturnType<typeof replayHistory>['faults'],
  ttlMs: number,
): boolean {
  const until = Math.min(first.until, second.until)
  return (
    until - second.from <= ttlMs &&
    faults.some(({ begin, from, until: end }) => {
      const [kind = '', victim] = begin.label.split(' ')
      const breaksConnections = victim === 'server' || isWireFault(kind)
      return breaksConnections && from <= until && end >= second.from - ttlMs
    })
  )
}

function recovery(events: readonly HistoryEvent[]): { readonly p50: number; readonly max: number } {
  const nextGrant = new Map<string, number>()
  const took: number[] = []
  for (const event of events.toReversed()) {
    if (event.type === 'granted')
      for (const who of ['server', slotOf(event.process)]) nextGrant.set(who, event.t)
    const hurt = hurtBy(event)
    const next = hurt === undefined ? undefined : nextGrant.get(hurt)
    if (next !== undefined) took.push(next - event.t)
  }
  return { p50: percentile(took, 0.5), max: percentile(took, 1) }
}

function hurtBy(event: HistoryEvent): string | undefined {
  if (event.type === 'crash') return slotOf(event.victim)
  return event.type === 'fault' && event.phase === 'end' ? event.label.split(' ')[1] : undefined
}

/** `w2` of `w2.7`, the seventh process of that worker. */
export function slotOf(process: string): string {
  return process.split('.')[0] ?? process
}
