import { describe, expect, test } from 'vitest'
import { checkHistory } from '../../src/conformance/check-history.ts'
import type { HistoryEvent } from '../../src/conformance/history.ts'
import { a, accepts, actor, b, broken, crash, fault, rejects } from './history-actors.ts'

describe('exclusion', () => {
  test.each<[string, HistoryEvent[]]>([
    ['release called', [a.gets(0, 1n), a.letsGo(10, 1n), b.gets(10, 2n), a.isReleased(11, 1n)]],
    ['lost', [a.gets(0, 1n), a.loses(10, 1n), b.gets(10, 2n)]],
    ['deadline', [a.gets(0, 1n, 50), b.gets(50, 2n)]],
    ['renewed deadline', [a.gets(0, 1n, 50), a.renews(40, 1n, 90), b.gets(90, 2n)]],
    ['crash', [a.gets(0, 1n), crash(10, 'pa'), b.gets(10, 2n)]],
    [
      'release, even if a renewal follows',
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
    expect(violations.map(({ invariant }) => invariant)).toEqual(['exclusion'])
    expect(violations[0]?.events.map(({ type }) => type)).toEqual(['granted', 'granted'])
  })

  test('every pair is reported, and other names do not count', () => {
    const elsewhere = actor('pb', 'main', undefined, 'other').gets(1, 1n)
    expect(broken([a.gets(0, 1n), elsewhere])).toEqual([])
    expect(broken([a.gets(0, 1n), b.gets(1, 2n), actor('pc').gets(2, 3n)])).toEqual([
      'exclusion',
      'exclusion',
      'exclusion',
    ])
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
    expect(broken([a.gets(0, 1n), b.gets(10, 2n), ...window])).toEqual(['exclusion'])
  })
})

describe('fence-order', () => {
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
    expect(broken(inTurn(7n, 6n))).toEqual(['fence-order'])
    expect(broken(inTurn(7n, 7n))).toEqual(['fence-order'])
  })

  test('is not excepted by a class-F fault', () => {
    expect(broken([...inTurn(7n, 1n), ...fault(1, 3, 'F')])).toEqual(['fence-order'])
  })

  test('re-entry of the same hold keeps its fence; a new hold of the same owner does not', () => {
    expect(broken([a.gets(0, 1n), a.gets(1, 1n)])).toEqual([])
    expect(broken([a.gets(0, 1n), a.letsGo(1, 1n), a.gets(2, 1n)])).toEqual(['fence-order'])
    expect(broken([a.gets(0, 1n), a.loses(1, 1n), a.gets(2, 1n)])).toEqual(['fence-order'])
  })

  test('a grant that came too late to be used may be older than its predecessors, but not have their fence', () => {
    const late = (fence: bigint): HistoryEvent[] => [b.gets(10, 2n), b.letsGo(11, 2n), a.gets(12, fence, 5)]
    expect(broken(late(1n))).toEqual([])
    expect(broken(late(2n))).toEqual(['fence-order'])
  })

  test('overlapping holds are in no order, unless one was asked for after the other was granted', () => {
    const overlap = (calledAt: number): HistoryEvent[] => [b.gets(5, 2n), a.calls(calledAt), a.gets(10, 1n)]
    expect(broken([...overlap(0), ...fault(1, 6, 'F')])).toEqual([])
    expect(broken([...overlap(6), ...fault(1, 6, 'F')])).toEqual(['fence-order'])
  })
})

describe('exposure', () => {
  const grants = [a.gets(0, 1n, 10), b.gets(20, 2n)]

  test('accepted fences that do not fall pass; a rejected stale one is what we want', () => {
    expect(broken([...grants, accepts(1, 1n), accepts(2, 1n), accepts(21, 2n), rejects(22, 1n)])).toEqual([])
  })

  test('a stale fence accepted after a newer one is reported, also across a class-F fault', () => {
    expect(broken([...grants, accepts(21, 2n), accepts(22, 1n), accepts(23, 1n)])).toEqual([
      'exposure',
      'exposure',
    ])
    expect(broken([...grants, ...fault(5, 30, 'F'), accepts(21, 2n), accepts(22, 1n)])).toEqual(['exposure'])
  })

  test('a fence that was never granted, or granted to another, is reported', () => {
    expect(broken([...grants, accepts(21, 9n)])).toEqual(['exposure'])
    expect(broken([...grants, a.acts(21, 2n)])).toEqual(['exposure'])
  })
})

describe('validity', () => {
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
    expect(broken(events)).toEqual(['validity'])
  })
})
