import type { HistoryEvent } from '@locks/core/conformance'
import type { Violation } from './verdict.ts'

/** The time in which one acquire may have held its name or been in its queue. */
interface Claim {
  readonly from: number
  until: number
  /** Leases not released yet. */
  leases: number
}

type Failed = Extract<HistoryEvent, { readonly type: 'acquire-failed' }>

export interface Lingering {
  /** How long an attempt of unknown outcome, or of a dead process, may still have an effect. */
  readonly lingerMs: number
  /** Clients observe a dead holder for its ttl: it counts until the next grant. */
  readonly watched: boolean
  /** The session of a dead holder gets its full timeout again whenever the server comes back. */
  readonly sessions: boolean
}

/**
 * Until when the store may still execute what a process sent between `from` and `until`, after its caller got an
 * unknown outcome: until the faults at that time are over, and until the store has answered that process again, since
 * a client may keep commands for its next connection.
 */
function sentUntil(
  events: readonly HistoryEvent[],
): (process: string, from: number, until: number) => number {
  const faults: { readonly from: number; to: number }[] = []
  const open = new Map<string, { readonly from: number; to: number }>()
  const answers = new Map<string, number[]>()
  for (const event of events) {
    if (event.type === 'fault' && event.phase === 'begin') {
      const begun = { from: event.t, to: Infinity }
      faults.push(begun)
      open.set(event.label, begun)
    } else if (event.type === 'fault') {
      const begun = open.get(event.label)
      if (begun !== undefined) begun.to = event.t
      open.delete(event.label)
    } else if (isAnswer(event)) {
      const times = answers.get(event.process)
      if (times === undefined) answers.set(event.process, [event.t])
      else times.push(event.t)
    }
  }
  return (process, from, until) => {
    const answered = answers.get(process)?.find((t) => t >= until) ?? until
    return faults.reduce(
      (over, fault) => (fault.from <= until && fault.to >= from ? Math.max(over, fault.to) : over),
      answered,
    )
  }
}

/** The latest end of the session of a dead process that was due to end at `until`. */
function sessionUntil(events: readonly HistoryEvent[], lingerMs: number): (until: number) => number {
  const outages: { readonly from: number; readonly to: number }[] = []
  const begun = new Map<string, number>()
  for (const event of events) {
    if (event.type !== 'fault' || !event.label.endsWith(' server')) continue
    if (event.phase === 'begin') begun.set(event.label, event.t)
    else outages.push({ from: begun.get(event.label) ?? event.t, to: event.t })
  }
  return (until) =>
    outages.reduce((over, { from, to }) => (from <= over ? Math.max(over, to + lingerMs) : over), until)
}

function isAnswer(event: HistoryEvent): boolean {
  return (
    event.type === 'granted' ||
    event.type === 'released' ||
    (event.type === 'acquire-failed' && event.outcome === 'fail')
  )
}

/** "Held" is correct only if another attempt held the name, waited for it, or may have. */
export function checkBusy(events: readonly HistoryEvent[], lingering: Lingering): Violation[] {
  const { lingerMs, watched, sessions } = lingering
  const claims = new Map<string, Claim[]>()
  const asking = new Map<string, Claim>()
  const holding = new Map<string, Claim>()
  const unwatched = new Map<string, { readonly claim: Claim; readonly leastUntil: number }[]>()
  const answers: { readonly asked: Claim; readonly event: Failed }[] = []
  const lateUntil = sentUntil(events)
  const overAt = sessions ? sessionUntil(events, lingerMs) : (until: number): number => until

  function end(from: Map<string, Claim>, key: string, until: number): void {
    const claim = from.get(key)
    if (claim !== undefined) claim.until = until
    from.delete(key)
  }
  function linger(from: Map<string, Claim>, key: string, name: string, t: number): void {
    const claim = from.get(key)
    if (claim === undefined) return
    const [process = ''] = key.split(' ')
    const leastUntil = overAt(lateUntil(process, claim.from, t) + lingerMs)
    end(from, key, watched ? Infinity : leastUntil)
    if (watched) unwatched.set(name, [...(unwatched.get(name) ?? []), { claim, leastUntil }])
  }
  for (const event of events) {
    if (event.type === 'crash')
      for (const kept of [asking, holding])
        for (const key of [...kept.keys()])
          if (key.startsWith(`${event.victim} `))
            linger(kept, key, key.split(' ').slice(2).join(' '), event.t)
    if (!('task' in event)) continue
    const key = `${event.process} ${event.task} ${event.name}`
    const asked = asking.get(key)
    const held = holding.get(key)
    if (event.type === 'acquire-called') {
      const claim = { from: event.t, until: Infinity, leases: 1 }
      claims.set(event.name, claims.get(event.name) ?? [])
      claims.get(event.name)?.push(claim)
      asking.set(key, claim)
    } else if (event.type === 'acquire-failed') {
      if (asked !== undefined && event.outcome === 'fail') answers.push({ asked, event })
      if (event.code === 'busy') end(asking, key, event.t)
      else linger(asking, key, event.name, event.t)
    } else if (event.type === 'granted') {
      asking.delete(key)
      for (const { claim, leastUntil } of unwatched.get(event.name) ?? [])
        claim.until = Math.max(leastUntil, event.t)
      unwatched.delete(event.name)
      if (held !== undefined) held.leases += 1
      else if (asked !== undefined) holding.set(key, asked)
      if (held !== undefined && asked !== undefined) asked.until = event.t
    } else if (event.type === 'released' && held !== undefined) {
      held.leases -= 1
      if (held.leases === 0) end(holding, key, event.t)
    } else if (event.type === 'release-failed' || event.type === 'lost') {
      linger(holding, key, event.name, event.t)
    }
  }
  return answers
    .filter(({ asked, event }) => !isExcused(claims.get(event.name) ?? [], asked, event))
    .map(({ event }) => ({
      check: 'held by nobody',
      message: `${event.process}/${event.task} got "held" for ${event.name}, and nobody can have held it`,
      events: [event],
    }))
}

function isExcused(claims: readonly Claim[], asked: Claim, event: Failed): boolean {
  // Latest first: an overlap is mostly among the neighbours.
  return (
    claims.findLast((claim) => claim !== asked && claim.from <= event.t && claim.until >= asked.from) !==
    undefined
  )
}
