import type { HistoryEvent } from '@locks/core/conformance'
import type { Violation } from './verdict.ts'

/** From when to when one acquire may have held its name, or stood in its queue. */
interface Claim {
  readonly from: number
  until: number
  /** Leases not released yet. */
  leases: number
}

type Failed = Extract<HistoryEvent, { readonly type: 'acquire-failed' }>

/**
 * "Held" is a right answer only when another attempt held the name, waited for it, or may have: one of unknown
 * outcome and one of a dead process count for `lingerMs` more.
 */
export function checkBusy(events: readonly HistoryEvent[], lingerMs: number): Violation[] {
  const claims = new Map<string, Claim[]>()
  const asking = new Map<string, Claim>()
  const holding = new Map<string, Claim>()
  const answers: { readonly asked: Claim; readonly event: Failed }[] = []

  function end(from: Map<string, Claim>, key: string, until: number): void {
    const claim = from.get(key)
    if (claim !== undefined) claim.until = until
    from.delete(key)
  }
  for (const event of events) {
    if (event.type === 'crash')
      for (const kept of [asking, holding])
        for (const key of [...kept.keys()])
          if (key.startsWith(`${event.victim} `)) end(kept, key, event.t + lingerMs)
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
      end(asking, key, event.code === 'busy' ? event.t : event.t + lingerMs)
    } else if (event.type === 'granted') {
      asking.delete(key)
      if (held !== undefined) held.leases += 1
      else if (asked !== undefined) holding.set(key, asked)
      if (held !== undefined && asked !== undefined) asked.until = event.t
    } else if (event.type === 'released' && held !== undefined) {
      held.leases -= 1
      if (held.leases === 0) end(holding, key, event.t)
    } else if (event.type === 'release-failed' || event.type === 'lost') {
      end(holding, key, event.t + lingerMs)
    }
  }
  return answers
    .filter(({ asked, event }) => !isExcused(claims.get(event.name) ?? [], asked, event))
    .map(({ event }) => ({
      check: 'held by nobody',
      message: `${event.process}/${event.task} was told that ${event.name} is held, and nobody can have held it`,
      events: [event],
    }))
}

function isExcused(claims: readonly Claim[], asked: Claim, event: Failed): boolean {
  // From the latest on: an overlap is mostly found among the neighbours.
  return (
    claims.findLast((claim) => claim !== asked && claim.from <= event.t && claim.until >= asked.from) !==
    undefined
  )
}
