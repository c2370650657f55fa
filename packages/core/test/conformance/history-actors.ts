import { checkHistory, type CheckOptions } from '../../src/conformance/check-history.ts'
import type { HistoryEvent } from '../../src/conformance/history.ts'

interface Actor {
  calls(t: number): HistoryEvent
  gets(t: number, fence: bigint, deadline?: number): HistoryEvent
  givesUp(t: number): HistoryEvent
  renews(t: number, fence: bigint, deadline: number): HistoryEvent
  acts(t: number, fence: bigint): HistoryEvent
  loses(t: number, fence: bigint): HistoryEvent
  letsGo(t: number, fence: bigint): HistoryEvent
  isReleased(t: number, fence: bigint): HistoryEvent
  isRefused(t: number, fence: bigint): HistoryEvent
}

/** One task of one process, on one lock. Default length of a lease: 100 ms. */
export function actor(process: string, task = 'main', owner?: string, name = 'n'): Actor {
  const who = { process, task, name, ...(owner === undefined ? {} : { owner }) }
  return {
    calls: (t) => ({ ...who, t, type: 'acquire-called' }),
    gets: (t, fence, deadline = t + 100) => ({ ...who, t, type: 'granted', fence, deadline }),
    givesUp: (t) => ({ ...who, t, type: 'acquire-failed', outcome: 'fail', code: 'LOCK_TIMEOUT' }),
    renews: (t, fence, deadline) => ({ ...who, t, type: 'renewed', fence, deadline }),
    acts: (t, fence) => ({ ...who, t, type: 'protected', fence }),
    loses: (t, fence) => ({ ...who, t, type: 'lost', fence }),
    letsGo: (t, fence) => ({ ...who, t, type: 'release-called', fence }),
    isReleased: (t, fence) => ({ ...who, t, type: 'released', fence }),
    isRefused: (t, fence) => ({ ...who, t, type: 'release-failed', fence, code: 'LOCK_NOT_OWNED' }),
  }
}

export const a = actor('pa')
export const b = actor('pb')
const supervisor = 'supervisor'
export const crash = (t: number, victim: string): HistoryEvent => ({
  t,
  process: supervisor,
  type: 'crash',
  victim,
})
const resource = { process: 'resource', name: 'n' }
export const accepts = (t: number, fence: bigint): HistoryEvent => ({
  ...resource,
  t,
  type: 'resource-accepted',
  fence,
})
export const rejects = (t: number, fence: bigint): HistoryEvent => ({
  ...resource,
  t,
  type: 'resource-rejected',
  fence,
})

export function fault(
  from: number,
  until: number | undefined,
  kind: 'E' | 'F',
  name?: string,
): HistoryEvent[] {
  const about = {
    process: supervisor,
    type: 'fault',
    label: 'cut',
    class: kind,
    ...(name ? { name } : {}),
  } as const
  const begin: HistoryEvent = { ...about, t: from, phase: 'begin' }
  return until === undefined ? [begin] : [begin, { ...about, t: until, phase: 'end' }]
}

export const broken = (events: HistoryEvent[], options?: CheckOptions): string[] =>
  checkHistory(events, options).map(({ invariant }) => invariant)
