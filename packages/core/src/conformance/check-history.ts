import type { HistoryEvent } from './history.ts'

/** The invariants that a history can show. */
export type Invariant = 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'I10' | 'I11'

export interface Violation {
  readonly invariant: Invariant
  readonly message: string
  /** The events that prove it. */
  readonly events: readonly HistoryEvent[]
}

/** A bound that is not given is not checked. */
export interface CheckOptions {
  /** I11: a run with fewer proves nothing. A crash counts as a fault. */
  readonly floors?: { readonly grants: number; readonly contendedWaits: number; readonly faults: number }
  /** I5: how long a free name may stay ungranted while anyone waits and no fault is on. */
  readonly maxIdleMs?: number
  /** I5: how long one waiter may wait, whatever happens. */
  readonly maxWaitMs?: number
  /** I6: how long after the crash of its holder a name may stay ungranted while anyone waits and no fault is on. */
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
  /** Of the acquires that succeeded. */
  readonly waitMs: { readonly p50: number; readonly p90: number; readonly p99: number; readonly max: number }
}

type Of<T extends HistoryEvent['type']> = Extract<HistoryEvent, { readonly type: T }>
type Act = Extract<HistoryEvent, { readonly task: string }>
type ResourceAnswer = Of<'resource-accepted' | 'resource-rejected'>
type Report = (invariant: Invariant, message: string, ...events: HistoryEvent[]) => void

interface Span {
  readonly from: number
  until: number
}

/** Valid from the grant until the first of last release called, loss, crash and deadline. */
interface Hold extends Span {
  readonly owner: string
  readonly calledAt: number
  readonly granted: Of<'granted'>
  endedBy: 'release' | 'loss' | 'crash' | undefined
  deadline: number
  /** From here on the store has no reason to keep others out. */
  freeFrom: number
  /** Leases nobody tried to give back yet, and leases whose release is not confirmed yet. */
  leases: number
  unconfirmed: number
  partlyReleased: HistoryEvent | undefined
}

interface Wait extends Span {
  readonly owner: string
  readonly called: Of<'acquire-called'>
  granted: boolean
  contended: boolean
}

interface Fault extends Span {
  readonly begin: Of<'fault'>
}

interface NameHistory {
  readonly holds: Hold[]
  readonly waits: Wait[]
  readonly minted: Map<bigint, Hold>
  highestAccepted: ResourceAnswer | undefined
}

interface Replay {
  readonly names: ReadonlyMap<string, NameHistory>
  readonly faults: readonly Fault[]
  readonly until: number
}

/** The violations of a history, its events in any order; none means that every invariant asked for held. */
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
    if (summary[key] < floor) report('I11', `only ${summary[key]} ${key}, at least ${floor} make a test`)
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

/** Rebuilds holds, waits and faults, and reports what only the state at the time of an event can tell. */
function replayHistory(unordered: readonly HistoryEvent[], report: Report = () => undefined): Replay {
  const events = unordered.toSorted((a, b) => a.t - b.t)
  const names = new Map<string, NameHistory>()
  const faults: Fault[] = []
  const holdOf = new Map<string, Hold>()
  const waitOf = new Map<string, Wait>()
  const dead = new Set<string>()

  function historyOf(name: string): NameHistory {
    const history = names.get(name) ?? { holds: [], waits: [], minted: new Map(), highestAccepted: undefined }
    names.set(name, history)
    return history
  }

  function onCalled(event: Of<'acquire-called'>): void {
    const { holds, waits } = historyOf(event.name)
    const last = holds.at(-1)
    const owner = ownerOf(event)
    const contended = last !== undefined && last.until > event.t && last.owner !== owner
    const wait: Wait = { owner, called: event, from: event.t, until: Infinity, granted: false, contended }
    waits.push(wait)
    waitOf.set(waitKey(event), wait)
  }

  function onWaitEnd(event: Of<'granted' | 'acquire-failed'>): Wait | undefined {
    const wait = waitOf.get(waitKey(event))
    waitOf.delete(waitKey(event))
    if (wait) Object.assign(wait, { until: event.t, granted: event.type === 'granted' })
    return wait
  }

  function onGranted(event: Of<'granted'>): void {
    const calledAt = onWaitEnd(event)?.from ?? event.t
    const known = holdOf.get(holdKey(event))
    if (known && !known.endedBy) {
      known.leases += 1
      known.unconfirmed += 1
      known.deadline = known.until = known.freeFrom = event.deadline
      return
    }
    const { holds, minted } = historyOf(event.name)
    const owner = ownerOf(event)
    const { t, deadline, fence } = event
    const state = { endedBy: undefined, leases: 1, unconfirmed: 1, partlyReleased: undefined }
    const hold: Hold = {
      owner,
      calledAt,
      granted: event,
      from: t,
      until: deadline,
      deadline,
      freeFrom: deadline,
      ...state,
    }
    // The kill was on its way while the victim wrote its last lines.
    if (dead.has(event.process)) end(hold, 'crash', t)
    const twin = minted.get(fence)
    if (twin) report('I2', `fence ${fence} was granted to two holds of ${event.name}`, twin.granted, event)
    minted.set(fence, hold)
    holds.push(hold)
    holdOf.set(holdKey(event), hold)
    for (const wait of waitOf.values())
      if (wait.called.name === event.name && wait.owner !== owner) wait.contended = true
  }

  function onHeld(
    event: Of<'renewed' | 'release-called' | 'released' | 'release-failed' | 'lost' | 'protected'>,
  ): void {
    const hold = holdOf.get(holdKey(event))
    const who = `${ownerOf(event)} with fence ${event.fence} of ${event.name}`
    if (event.type === 'protected') {
      if (!hold) report('I3', `${who} acts under a fence that was not granted to it`, event)
      else if (event.t >= hold.deadline || hold.endedBy === 'release' || hold.endedBy === 'loss')
        report('I4', `${who} acts after its ${hold.endedBy ?? 'deadline'}`, hold.granted, event)
    } else if (event.type === 'released') {
      if (!hold?.unconfirmed) return report('I10', `${who} was released more often than granted`, event)
      hold.unconfirmed -= 1
      if (hold.unconfirmed === 0) hold.freeFrom = event.t
    } else if (hold && !hold.endedBy) {
      if (event.type === 'renewed') hold.deadline = hold.until = hold.freeFrom = event.deadline
      if (event.type === 'lost') end(hold, 'loss', event.t)
      if (event.type !== 'release-called') return
      hold.leases -= 1
      if (hold.leases === 0) end(hold, 'release', event.t)
      else hold.partlyReleased ??= event
    }
  }

  function onResource(event: ResourceAnswer): void {
    if (event.type === 'resource-rejected') return
    const history = historyOf(event.name)
    const highest = history.highestAccepted
    const what = `the resource of ${event.name} accepted fence ${event.fence}`
    if (!history.minted.has(event.fence)) report('I3', `${what}, which nobody was granted`, event)
    if (highest && event.fence < highest.fence) report('I3', `${what} after ${highest.fence}`, highest, event)
    else history.highestAccepted = event
  }

  function onFault(event: Of<'fault'>): void {
    if (event.phase === 'begin') {
      faults.push({ begin: event, from: event.t, until: Infinity })
      return
    }
    const same = ({ begin, until }: Fault): boolean =>
      until === Infinity && begin.label === event.label && begin.name === event.name
    const fault = faults.findLast(same)
    if (fault) fault.until = event.t
  }

  function onCrash({ victim, t }: Of<'crash'>): void {
    dead.add(victim)
    for (const hold of holdOf.values())
      if (hold.granted.process === victim && hold.until > t) end(hold, 'crash', t)
    for (const wait of waitOf.values()) if (wait.called.process === victim) wait.until = t
  }

  for (const event of events) {
    if (event.type === 'acquire-called') onCalled(event)
    else if (event.type === 'acquire-failed') onWaitEnd(event)
    else if (event.type === 'granted') onGranted(event)
    else if (event.type === 'crash') onCrash(event)
    else if (event.type === 'fault') onFault(event)
    else if ('task' in event) onHeld(event)
    else onResource(event)
  }
  return { names, faults, until: events.at(-1)?.t ?? 0 }
}

function checkExclusion({ holds }: NameHistory, faults: readonly Fault[], report: Report): void {
  for (const [hold, others] of sweep(holds)) {
    for (const other of others) {
      const proof = [other.granted, hold.granted]
      const early = other.partlyReleased
      if (early && early.t <= hold.from)
        report('I10', `${other.owner} freed ${hold.granted.name} before its last release`, ...proof, early)
      // Only a fault after the first grant and before the second can have let the second in.
      if (
        faults.some(
          ({ begin, from, until }) => begin.class === 'F' && from <= hold.from && until >= other.from,
        )
      )
        continue
      const overlapMs = Math.min(hold.until, other.until) - hold.from
      report(
        'I1',
        `${other.owner} and ${hold.owner} both held ${hold.granted.name} for ${overlapMs} ms`,
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
    // Replies may overtake each other. Of holds that overlap only those granted before this one was even asked
    // for are surely older; and a grant that arrived after its own deadline may be older than all before it.
    const older = open.filter((other) => other.from <= hold.calledAt)
    const earlier = hold.until > hold.from ? [...older, ...(highest ? [highest] : [])] : []
    for (const { granted } of earlier)
      if (granted.fence > hold.granted.fence)
        report('I2', `fence ${hold.granted.fence} came after ${granted.fence}`, granted, hold.granted)
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
    if (waitedMs > maxWaitMs) report('I5', `${wait.owner} waited ${waitedMs} ms`, wait.called)
  }
  let freeFrom = -Infinity
  for (const next of [...holds, undefined]) {
    const idle = longestWait(waits, faults, { from: freeFrom, until: next?.from ?? until }, maxIdleMs)
    if (idle)
      report(
        'I5',
        `nobody got the free lock for ${idle.ms} ms`,
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
      report('I6', `nobody got the lock of a crashed holder for ${idle.ms} ms`, hold.granted, ...idle.callers)
  }
}

/** The longest stretch of a gap in which somebody waited and no fault was on, if longer than `limitMs`. */
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
    stretches = stretches.flatMap(({ from, until }) => [
      { from, until: Math.min(until, fault.from) },
      { from: Math.max(from, fault.until), until },
    ])
  const ms = Math.max(0, ...stretches.map(({ from, until }) => until - from))
  return ms > limitMs ? { ms, callers: inGap.map((wait) => wait.called) } : undefined
}

/** Each hold that was valid at all, with those still valid when it was granted. */
function* sweep(holds: readonly Hold[]): Generator<readonly [Hold, readonly Hold[]]> {
  let valid: Hold[] = []
  for (const hold of holds) {
    if (hold.until <= hold.from) continue
    valid = valid.filter((other) => other.until > hold.from)
    yield [hold, valid]
    valid.push(hold)
  }
}

function end(hold: Hold, by: Hold['endedBy'], t: number): void {
  if (hold.endedBy) return
  hold.endedBy = by
  hold.until = Math.min(hold.until, t)
}

function ownerOf(event: Act): string {
  return `${event.process}/${event.owner ?? event.task}`
}

function waitKey(event: Act): string {
  return JSON.stringify([event.name, event.process, event.task])
}

function holdKey(event: Act & { readonly fence: bigint }): string {
  return JSON.stringify([event.name, ownerOf(event), event.fence.toString()])
}
