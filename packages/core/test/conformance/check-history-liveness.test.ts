import { describe, expect, test } from 'vitest'
import { summarise } from '../../src/conformance/check-history.ts'
import type { HistoryEvent } from '../../src/conformance/history.ts'
import { a, actor, b, broken, crash, fault } from './history-actors.ts'

describe('liveness', () => {
  const options = { maxIdleMs: 50 }
  const freed = [a.gets(0, 1n), a.letsGo(9, 1n), a.isReleased(10, 1n)]

  test.each<[string, HistoryEvent[]]>([
    ['granted in time', [...freed, b.calls(5), b.gets(60, 2n)]],
    ['no client waited', [...freed, b.calls(500), b.gets(510, 2n)]],
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
    expect(broken(events, options)).toEqual(['liveness'])
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
    expect(broken([b.calls(5), ...rounds], { maxIdleMs: 5, maxWaitMs: 30 })).toEqual(['liveness'])
  })
})

describe('crash-release', () => {
  const crashed = [a.gets(0, 1n, 100), crash(20, 'pa')]

  test('a grant to a waiter within the bound passes, and so does a free lock without waiters', () => {
    expect(broken([...crashed, b.calls(5), b.gets(140, 2n)], { crashReleaseMs: 120 })).toEqual([])
    expect(broken([...crashed, b.calls(900), b.gets(901, 2n)], { crashReleaseMs: 120 })).toEqual([])
    expect(broken([...crashed, b.calls(100), b.gets(200, 2n)], { crashReleaseMs: 120 })).toEqual([])
  })

  test('a later grant, or none, is reported', () => {
    expect(broken([...crashed, b.calls(5), b.gets(141, 2n)], { crashReleaseMs: 120 })).toEqual([
      'crash-release',
    ])
    expect(broken([...crashed, b.calls(5), b.givesUp(141)], { crashReleaseMs: 120 })).toEqual([
      'crash-release',
    ])
  })

  test('the crash of a process that holds nothing does not count', () => {
    const expired = [a.gets(0, 1n, 10), crash(20, 'pa')]
    expect(broken([...expired, b.calls(5), b.gets(135, 2n)], { crashReleaseMs: 120 })).toEqual([])
    const released = [a.gets(0, 1n), a.letsGo(9, 1n), a.isReleased(10, 1n), crash(20, 'pa')]
    expect(broken([...released, b.calls(5), b.gets(500, 2n)], { crashReleaseMs: 120 })).toEqual([])
  })
})

describe('balance', () => {
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
    expect(broken([...twice, b.gets(5, 2n), ...last])).toEqual(['balance', 'exclusion'])
  })

  test('one release more that succeeds is reported, and so is one of a lock never held', () => {
    expect(broken([...twice, ...last, a.letsGo(10, 1n), a.isReleased(11, 1n)])).toEqual(['balance'])
    expect(broken([a.gets(0, 1n), b.isReleased(5, 1n)])).toEqual(['balance'])
  })
})

describe('coverage', () => {
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
    expect(broken(run, { floors: { grants: 3, contendedWaits: 1, faults: 2 } })).toEqual(['coverage'])
    expect(broken(run, { floors: { grants: 2, contendedWaits: 2, faults: 2 } })).toEqual(['coverage'])
    expect(broken(run, { floors: { grants: 2, contendedWaits: 1, faults: 3 } })).toEqual(['coverage'])
    expect(broken([], { floors: { grants: 1, contendedWaits: 1, faults: 1 } })).toEqual([
      'coverage',
      'coverage',
      'coverage',
    ])
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
