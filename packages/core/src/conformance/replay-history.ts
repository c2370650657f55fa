import type { HistoryEvent } from './history.ts'

/** The invariants that a history can show. */
export type Invariant =
  | 'exclusion'
  | 'fence-order'
  | 'exposure'
  | 'validity'
  | 'liveness'
  | 'crash-release'
  | 'balance'
  | 'coverage'

type Of<T extends HistoryEvent['type']> = Extract<HistoryEvent, { readonly type: T }>
type Act = Extract<HistoryEvent, { readonly task: string }>
type ResourceAnswer = Of<'resource-accepted' | 'resource-rejected'>
export type Report = (invariant: Invariant, message: string, ...events: HistoryEvent[]) => void

export interface Span {
  readonly from: number
  until: number
}

/** Valid from the grant until the first of: the call of its last release, loss, crash, deadline. */
export interface Hold extends Span {
  readonly owner: string
  readonly calledAt: number
  readonly granted: Of<'granted'>
  endedBy: 'release' | 'loss' | 'crash' | undefined
  deadline: number
  /** From then on the store has no reason to exclude others. */
  freeFrom: number
  /** Leases not released yet, and leases whose release is not confirmed yet. */
  leases: number
  unconfirmed: number
  partlyReleased: HistoryEvent | undefined
}

export interface Wait extends Span {
  readonly owner: string
  readonly called: Of<'acquire-called'>
  granted: boolean
  contended: boolean
}

export interface Fault extends Span {
  readonly begin: Of<'fault'>
}

export interface NameHistory {
  readonly holds: Hold[]
  readonly waits: Wait[]
  readonly minted: Map<bigint, Hold>
  highestAccepted: ResourceAnswer | undefined
}

export interface Replay {
  readonly names: ReadonlyMap<string, NameHistory>
  readonly faults: readonly Fault[]
  readonly until: number
}

/** The holds, waits and faults of a history, from events in any order. Calls `report` for invalid events. */
export function replayHistory(unordered: readonly HistoryEvent[], report: Report = () => undefined): Replay {
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
    // The victim may have written its last lines after the kill was recorded.
    if (dead.has(event.process)) end(hold, 'crash', t)
    const twin = minted.get(fence)
    if (twin)
      report('fence-order', `fence ${fence} was granted to two holds of ${event.name}`, twin.granted, event)
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
      if (!hold) report('exposure', `${who} acts under a fence that was not granted to it`, event)
      else if (event.t >= hold.deadline || hold.endedBy === 'release' || hold.endedBy === 'loss')
        report('validity', `${who} acts after its ${hold.endedBy ?? 'deadline'}`, hold.granted, event)
    } else if (event.type === 'released') {
      if (!hold?.unconfirmed) return report('balance', `${who} was released more often than granted`, event)
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
    if (!history.minted.has(event.fence)) report('exposure', `${what}, which was never granted`, event)
    if (highest && event.fence < highest.fence)
      report('exposure', `${what} after ${highest.fence}`, highest, event)
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
