import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { checkHistory, summarise, type CheckOptions } from '../../src/conformance/check-history.ts'
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

/** One task of one process, on one lock; leases last 100 ms unless said otherwise. */
function actor(process: string, task = 'main', owner?: string, name = 'n'): Actor {
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

const a = actor('pa')
const b = actor('pb')
const supervisor = 'supervisor'
const crash = (t: number, victim: string): HistoryEvent => ({ t, process: supervisor, type: 'crash', victim })
const resource = { process: 'resource', name: 'n' }
const accepts = (t: number, fence: bigint): HistoryEvent => ({
  ...resource,
  t,
  type: 'resource-accepted',
  fence,
})
const rejects = (t: number, fence: bigint): HistoryEvent => ({
  ...resource,
  t,
  type: 'resource-rejected',
  fence,
})

function fault(from: number, until: number | undefined, kind: 'E' | 'F', name?: string): HistoryEvent[] {
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

const broken = (events: HistoryEvent[], options?: CheckOptions): string[] =>
  checkHistory(events, options).map(({ invariant }) => invariant)

describe('I1 exclusion', () => {
  test.each<[string, HistoryEvent[]]>([
    ['release called', [a.gets(0, 1n), a.letsGo(10, 1n), b.gets(10, 2n), a.isReleased(11, 1n)]],
    ['lost', [a.gets(0, 1n), a.loses(10, 1n), b.gets(10, 2n)]],
    ['deadline', [a.gets(0, 1n, 50), b.gets(50, 2n)]],
    ['renewed deadline', [a.gets(0, 1n, 50), a.renews(40, 1n, 90), b.gets(90, 2n)]],
    ['crash', [a.gets(0, 1n), crash(10, 'pa'), b.gets(10, 2n)]],
    [
      'release, whatever a renewal says later',
      [a.gets(0, 1n), a.letsGo(5, 1n), a.renews(6, 1n, 99), b.gets(7, 2n)],
    ],
    ['a deadline that had passed when the grant arrived', [b.gets(10, 2n), a.gets(12, 1n, 5)]],
    ['crash while the grant arrived', [crash(9, 'pa'), a.gets(10, 1n), b.gets(11, 2n)]],
  ])('a hold ends by %s', (_by, events) => {
    expect(checkHistory(events)).toEqual([])
  })

  test.each<[string, HistoryEvent[]]>([
    ['before release', [a.gets(0, 1n), b.gets(9, 2n), a.letsGo(10, 1n)]],
    ['before loss', [a.gets(0, 1n), b.gets(9, 2n), a.loses(10, 1n)]],
    ['before the deadline', [a.gets(0, 1n, 50), b.gets(49, 2n)]],
    ['before the renewed deadline', [a.gets(0, 1n, 50), a.renews(40, 1n, 90), b.gets(60, 2n)]],
    ['before the deadline read at re-entry', [a.gets(0, 1n, 50), a.gets(40, 1n, 90), b.gets(60, 2n)]],
    ['before the crash', [a.gets(0, 1n), b.gets(9, 2n), crash(10, 'pa')]],
    ['after the crash of another', [a.gets(0, 1n), crash(5, 'pb'), actor('pc').gets(9, 2n)]],
    ['by another owner of the same process', [a.gets(0, 1n), actor('pa', 'other').gets(9, 2n)]],
    ['by the same owner under a new fence', [a.gets(0, 1n), a.gets(9, 2n)]],
    [
      'in spite of a renewal after release',
      [a.gets(0, 1n), b.gets(5, 2n), a.letsGo(9, 1n), a.renews(10, 1n, 99)],
    ],
  ])('a second holder %s is reported', (_when, events) => {
    const violations = checkHistory(events)
    expect(violations.map(({ invariant }) => invariant)).toEqual(['I1'])
    expect(violations[0]?.events.map(({ type }) => type)).toEqual(['granted', 'granted'])
  })

  test('every pair is reported, and other names do not count', () => {
    const elsewhere = actor('pb', 'main', undefined, 'other').gets(1, 1n)
    expect(broken([a.gets(0, 1n), elsewhere])).toEqual([])
    expect(broken([a.gets(0, 1n), b.gets(1, 2n), actor('pc').gets(2, 3n)])).toEqual(['I1', 'I1', 'I1'])
  })

  test.each<[string, HistoryEvent[]]>([
    ['around the second grant', fault(5, 20, 'F')],
    ['over before the second grant', fault(5, 8, 'F')],
    ['never ended', fault(5, undefined, 'F')],
    ['of that name', fault(5, 20, 'F', 'n')],
  ])('an overlap across a class-F fault is excepted: %s', (_which, window) => {
    expect(broken([a.gets(0, 1n), b.gets(10, 2n), ...window])).toEqual([])
  })

  test.each<[string, HistoryEvent[]]>([
    ['of class E', fault(5, 20, 'E')],
    ['healed before the first grant', fault(-9, -5, 'F')],
    ['after the second grant', fault(11, 20, 'F')],
    ['of another name', fault(5, 20, 'F', 'other')],
  ])('an overlap is not excepted by a fault %s', (_which, window) => {
    expect(broken([a.gets(0, 1n), b.gets(10, 2n), ...window])).toEqual(['I1'])
  })
})

describe('I2 fence', () => {
  const inTurn = (first: bigint, second: bigint): HistoryEvent[] => [
    a.gets(0, first),
    a.letsGo(1, first),
    a.isReleased(2, first),
    b.gets(3, second),
  ]

  test('strictly increasing fences pass, gaps and big ones included', () => {
    expect(broken(inTurn(7n, 2n ** 70n))).toEqual([])
  })

  test('a lower or an equal fence of a later hold is reported', () => {
    expect(broken(inTurn(7n, 6n))).toEqual(['I2'])
    expect(broken(inTurn(7n, 7n))).toEqual(['I2'])
  })

  test('is not excepted by a class-F fault', () => {
    expect(broken([...inTurn(7n, 1n), ...fault(1, 3, 'F')])).toEqual(['I2'])
  })

  test('re-entry of the same hold keeps its fence; a new hold of the same owner does not', () => {
    expect(broken([a.gets(0, 1n), a.gets(1, 1n)])).toEqual([])
    expect(broken([a.gets(0, 1n), a.letsGo(1, 1n), a.gets(2, 1n)])).toEqual(['I2'])
    expect(broken([a.gets(0, 1n), a.loses(1, 1n), a.gets(2, 1n)])).toEqual(['I2'])
  })

  test('a grant that came too late to be used may be older than its predecessors, but not have their fence', () => {
    const late = (fence: bigint): HistoryEvent[] => [b.gets(10, 2n), b.letsGo(11, 2n), a.gets(12, fence, 5)]
    expect(broken(late(1n))).toEqual([])
    expect(broken(late(2n))).toEqual(['I2'])
  })

  test('overlapping holds are in no order, unless one was asked for after the other was granted', () => {
    const overlap = (calledAt: number): HistoryEvent[] => [b.gets(5, 2n), a.calls(calledAt), a.gets(10, 1n)]
    expect(broken([...overlap(0), ...fault(1, 6, 'F')])).toEqual([])
    expect(broken([...overlap(6), ...fault(1, 6, 'F')])).toEqual(['I2'])
  })
})

describe('I3 exposure', () => {
  const grants = [a.gets(0, 1n, 10), b.gets(20, 2n)]

  test('accepted fences that do not fall pass; a rejected stale one is what we want', () => {
    expect(broken([...grants, accepts(1, 1n), accepts(2, 1n), accepts(21, 2n), rejects(22, 1n)])).toEqual([])
  })

  test('a stale fence accepted after a newer one is reported, also across a class-F fault', () => {
    expect(broken([...grants, accepts(21, 2n), accepts(22, 1n), accepts(23, 1n)])).toEqual(['I3', 'I3'])
    expect(broken([...grants, ...fault(5, 30, 'F'), accepts(21, 2n), accepts(22, 1n)])).toEqual(['I3'])
  })

  test('a fence that nobody was granted, or granted to another, is reported', () => {
    expect(broken([...grants, accepts(21, 9n)])).toEqual(['I3'])
    expect(broken([...grants, a.acts(21, 2n)])).toEqual(['I3'])
  })
})

describe('I4 validity', () => {
  test('acting before the deadline passes, the renewed one included', () => {
    expect(broken([a.gets(0, 1n, 50), a.acts(49, 1n), a.renews(49, 1n, 90), a.acts(89, 1n)])).toEqual([])
  })

  test('the last act of a process being killed passes', () => {
    expect(broken([a.gets(0, 1n, 50), crash(10, 'pa'), a.acts(10.1, 1n)])).toEqual([])
  })

  test.each<[string, HistoryEvent[]]>([
    ['at the deadline', [a.gets(0, 1n, 50), a.acts(50, 1n)]],
    ['after release was called', [a.gets(0, 1n), a.letsGo(5, 1n), a.acts(6, 1n), a.isReleased(7, 1n)]],
    ['after loss', [a.gets(0, 1n), a.loses(5, 1n), a.acts(6, 1n)]],
    [
      'after a renewal that came when all was over',
      [a.gets(0, 1n), a.loses(5, 1n), a.renews(6, 1n, 90), a.acts(7, 1n)],
    ],
  ])('acting %s is reported', (_when, events) => {
    expect(broken(events)).toEqual(['I4'])
  })
})

describe('I5 liveness', () => {
  const options = { maxIdleMs: 50 }
  const freed = [a.gets(0, 1n), a.letsGo(9, 1n), a.isReleased(10, 1n)]

  test.each<[string, HistoryEvent[]]>([
    ['granted in time', [...freed, b.calls(5), b.gets(60, 2n)]],
    ['nobody waited', [...freed, b.calls(500), b.gets(510, 2n)]],
    ['the waiter gave up', [...freed, b.calls(5), b.givesUp(40), a.calls(900), a.gets(901, 2n)]],
    ['the waiter was killed', [...freed, b.calls(5), crash(40, 'pb'), a.calls(900), a.gets(901, 2n)]],
    [
      'granted in time after the fault healed',
      [...freed, b.calls(5), ...fault(20, 400, 'E'), b.gets(440, 2n)],
    ],
    [
      'an unreleased lease runs to its deadline',
      [a.gets(0, 1n), a.letsGo(1, 1n), b.calls(2), b.gets(140, 2n)],
    ],
  ])('passes: %s', (_why, events) => {
    expect(broken(events, options)).toEqual([])
  })

  test.each<[string, HistoryEvent[]]>([
    ['granted too late', [...freed, b.calls(5), b.gets(61, 2n)]],
    ['never granted', [...freed, b.calls(5), crash(61, 'unrelated')]],
    ['never held before', [b.calls(5), b.gets(56, 1n)]],
    [
      'waiters in relays',
      [...freed, b.calls(5), actor('pc').calls(30), b.givesUp(40), actor('pc').gets(70, 2n)],
    ],
    [
      'too late after the last of two faults healed',
      [...freed, b.calls(5), ...fault(11, 400, 'E'), ...fault(20, 30, 'E'), b.gets(451, 2n)],
    ],
    ['too late after the fault healed', [...freed, b.calls(5), ...fault(20, 400, 'E'), b.gets(451, 2n)]],
  ])('is reported: %s', (_why, events) => {
    expect(broken(events, options)).toEqual(['I5'])
  })

  test('a waiter that starves is reported while others get the lock', () => {
    const rounds = [1, 2, 3].flatMap((turn) => {
      const fence = BigInt(turn)
      return [
        a.calls(turn * 10),
        a.gets(turn * 10, fence),
        a.letsGo(turn * 10 + 9, fence),
        a.isReleased(turn * 10 + 9, fence),
      ]
    })
    expect(broken([b.calls(10), ...rounds], { maxIdleMs: 5, maxWaitMs: 30 })).toEqual([])
    expect(broken([b.calls(5), ...rounds], { maxIdleMs: 5, maxWaitMs: 30 })).toEqual(['I5'])
  })
})

describe('I6 crash release', () => {
  const crashed = [a.gets(0, 1n, 100), crash(20, 'pa')]

  test('a grant to a waiter within the bound passes, and so does nobody waiting', () => {
    expect(broken([...crashed, b.calls(5), b.gets(140, 2n)], { crashReleaseMs: 120 })).toEqual([])
    expect(broken([...crashed, b.calls(900), b.gets(901, 2n)], { crashReleaseMs: 120 })).toEqual([])
    expect(broken([...crashed, b.calls(100), b.gets(200, 2n)], { crashReleaseMs: 120 })).toEqual([])
  })

  test('a later grant, or none, is reported', () => {
    expect(broken([...crashed, b.calls(5), b.gets(141, 2n)], { crashReleaseMs: 120 })).toEqual(['I6'])
    expect(broken([...crashed, b.calls(5), b.givesUp(141)], { crashReleaseMs: 120 })).toEqual(['I6'])
  })

  test('the crash of a process that held nothing, or nothing any more, does not count', () => {
    const expired = [a.gets(0, 1n, 10), crash(20, 'pa')]
    expect(broken([...expired, b.calls(5), b.gets(135, 2n)], { crashReleaseMs: 120 })).toEqual([])
    const released = [a.gets(0, 1n), a.letsGo(9, 1n), a.isReleased(10, 1n), crash(20, 'pa')]
    expect(broken([...released, b.calls(5), b.gets(500, 2n)], { crashReleaseMs: 120 })).toEqual([])
  })
})

describe('I10 balance', () => {
  const twice = [a.gets(0, 1n), a.gets(1, 1n), a.letsGo(2, 1n), a.isReleased(3, 1n)]
  const last = [a.letsGo(8, 1n), a.isReleased(9, 1n)]

  test('a re-entered hold lasts to its last release; one release more fails', () => {
    expect(broken([...twice, a.acts(5, 1n), ...last, b.gets(10, 2n)])).toEqual([])
    expect(broken([...twice, ...last, a.letsGo(10, 1n), a.isRefused(11, 1n)])).toEqual([])
  })

  test('re-entry by another task under the same owner is one hold', () => {
    const [one, two] = [actor('pa', 'one', 'us'), actor('pa', 'two', 'us')]
    expect(broken([one.gets(0, 1n), two.gets(1, 1n), one.letsGo(2, 1n), two.acts(3, 1n)])).toEqual([])
  })

  test('freed by its first release, it is reported with the overlap', () => {
    expect(broken([...twice, b.gets(5, 2n), ...last])).toEqual(['I10', 'I1'])
  })

  test('one release more that succeeds is reported, and so is one of a lock never held', () => {
    expect(broken([...twice, ...last, a.letsGo(10, 1n), a.isReleased(11, 1n)])).toEqual(['I10'])
    expect(broken([a.gets(0, 1n), b.isReleased(5, 1n)])).toEqual(['I10'])
  })
})

describe('I11 not vacuous', () => {
  const run = [
    a.gets(0, 1n),
    b.calls(5),
    a.letsGo(9, 1n),
    b.gets(10, 2n),
    crash(11, 'pb'),
    ...fault(12, 13, 'E'),
  ]

  test('a run that reaches the floors passes', () => {
    expect(broken(run, { floors: { grants: 2, contendedWaits: 1, faults: 2 } })).toEqual([])
  })

  test('each floor missed is reported, an empty history with all', () => {
    expect(broken(run, { floors: { grants: 3, contendedWaits: 1, faults: 2 } })).toEqual(['I11'])
    expect(broken(run, { floors: { grants: 2, contendedWaits: 2, faults: 2 } })).toEqual(['I11'])
    expect(broken(run, { floors: { grants: 2, contendedWaits: 1, faults: 3 } })).toEqual(['I11'])
    expect(broken([], { floors: { grants: 1, contendedWaits: 1, faults: 1 } })).toEqual(['I11', 'I11', 'I11'])
  })
})

test('summarise counts grants, contended waits, faults and holders, and ranks the waits', () => {
  const c = actor('pc')
  const events = [
    a.calls(0),
    a.gets(1, 1n),
    b.calls(0.5),
    c.calls(2),
    c.givesUp(3),
    a.calls(4),
    a.gets(5, 1n),
    a.letsGo(8, 1n),
    a.letsGo(9, 1n),
    b.gets(11, 2n),
    c.calls(110),
    c.gets(110, 3n),
    a.calls(500),
    a.gets(500, 4n),
    ...fault(12, 13, 'E'),
  ]
  expect(summarise(events)).toEqual({
    grants: 5,
    contendedWaits: 2,
    faults: 1,
    maxHolders: 2,
    waitMs: { p50: 1, p90: 10.5, p99: 10.5, max: 10.5 },
  })
  expect(summarise([])).toMatchObject({ grants: 0, maxHolders: 0, waitMs: { p50: 0, max: 0 } })
})

describe('generated histories', () => {
  const turn = fc.record({
    who: fc.nat(3),
    queuedMs: fc.nat(20),
    heldMs: fc.integer({ min: 1, max: 30 }),
    idleMs: fc.nat(5),
    depth: fc.integer({ min: 1, max: 3 }),
    step: fc.integer({ min: 1, max: 9 }),
    end: fc.constantFrom('release', 'lost', 'deadline'),
  })
  type Turn = typeof turn extends fc.Arbitrary<infer T> ? T : never

  /** Holds one after the other; each task calls for its next turn some time before it gets it. */
  function sequential(turns: readonly Turn[]): {
    events: HistoryEvent[]
    holds: { from: number; until: number }[]
  } {
    const holds: { from: number; until: number }[] = []
    const lastEnd = new Map<number, number>()
    let t = 100
    let fence = 0n
    const events = turns.flatMap(({ who, queuedMs, heldMs, idleMs, depth, step, end }) => {
      const holder = actor(`p${who}`)
      fence += BigInt(step)
      const [from, until] = [t, t + heldMs]
      t = until + idleMs
      holds.push({ from, until })
      const calledAt = Math.max(from - queuedMs, lastEnd.get(who) ?? 0)
      lastEnd.set(who, until)
      const deadline = end === 'deadline' ? until : until + 50
      const grants = Array.from({ length: depth }, (_, index) => [
        holder.calls(index === 0 ? calledAt : from),
        holder.gets(from, fence, deadline),
      ]).flat()
      const work = [accepts(from + 0.5, fence), holder.acts(from + 0.5, fence)]
      if (end === 'deadline') return [...grants, ...work]
      if (end === 'lost') return [...grants, ...work, holder.loses(until, fence)]
      const releases = Array.from({ length: depth }, () => [
        holder.letsGo(until, fence),
        holder.isReleased(until, fence),
      ])
      return [...grants, ...work, ...releases.flat()]
    })
    return { events, holds }
  }

  test('holds one after the other violate nothing', () => {
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 30 }), (turns) => {
        const { events } = sequential(turns)
        expect(checkHistory(events, { maxIdleMs: 60, crashReleaseMs: 0 })).toEqual([])
        expect(summarise(events).maxHolders).toBe(turns.length === 0 ? 0 : 1)
      }),
    )
  })

  test('the order in which events are given does not matter, as long as each file keeps its own', () => {
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 15 }), fc.infiniteStream(fc.nat(3)), (turns, picks) => {
        const { events } = sequential(turns)
        const files = new Map<string, HistoryEvent[]>()
        for (const event of events) files.set(event.process, [...(files.get(event.process) ?? []), event])
        const shuffled: HistoryEvent[] = []
        for (const pick of picks) {
          const left = [...files.values()].filter((file) => file.length > 0)
          if (left.length === 0) break
          shuffled.push(...(left[pick % left.length]?.splice(0, 1) ?? []))
        }
        expect(shuffled).toHaveLength(events.length)
        expect(broken(shuffled)).toEqual([])
      }),
    )
  })

  test('a grant moved into the hold before it is always found', () => {
    const turns = fc.array(turn, { minLength: 2, maxLength: 30 })
    fc.assert(
      fc.property(turns, fc.nat(), fc.double({ min: 0, max: 0.99, noNaN: true }), (made, pick, share) => {
        const { events, holds } = sequential(made)
        const index = 1 + (pick % (holds.length - 1))
        const [victim, mover] = [holds[index - 1], holds[index]]
        if (!victim || !mover) throw new Error('no such hold')
        const earlyFrom = victim.from + share * (victim.until - victim.from)
        let fence = 0n
        for (const { step } of made.slice(0, index + 1)) fence += BigInt(step)
        const moved = events.map((event) =>
          event.type === 'granted' && event.fence === fence ? { ...event, t: earlyFrom } : event,
        )
        expect(broken(moved)).toContain('I1')
      }),
    )
  })
})
