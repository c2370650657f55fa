import { openLocks } from '@locks/core'
import type { Lock, Locks } from '@locks/core'
import { block } from '@locks/core/conformance'
import type { HistoryEvent } from '@locks/core/conformance'
import { describe, expect, test } from 'vitest'
import { isWatched } from '../src/torture/lease-length.ts'
import { routeOf } from '../src/route.ts'
import { judge } from '../src/torture/verdict.ts'
import { store } from './support/cli.ts'

const at = { host: '127.0.0.1', port: 1 }
const other = { host: '127.0.0.1', port: 2 }

describe('the route to the servers', () => {
  test.each([
    ['redis://localhost', [{ host: 'localhost', port: 6379 }], 'redis://127.0.0.1:1'],
    ['redis://u:p,w@h:7/3?x=1', [{ host: 'h', port: 7 }], 'redis://u:p,w@127.0.0.1:1/3?x=1'],
    ['postgres://u@[::1]/db', [{ host: '::1', port: 5432 }], 'postgres://u@127.0.0.1:1/db'],
    ['mariadb://u@h/db?strategy=row', [{ host: 'h', port: 3306 }], 'mariadb://u@127.0.0.1:1/db?strategy=row'],
    [
      'zookeeper://a,b:3/root',
      [
        { host: 'a', port: 2181 },
        { host: 'b', port: 3 },
      ],
      'zookeeper://127.0.0.1:1,127.0.0.1:2/root',
    ],
    [
      'redlock:redis://a:5,redis://b?quorum=2',
      [
        { host: 'a', port: 5 },
        { host: 'b', port: 6379 },
      ],
      'redlock:redis://127.0.0.1:1,redis://127.0.0.1:2?quorum=2',
    ],
  ])('of %s leads through proxies', (url, targets, through) => {
    const route = routeOf(url)
    expect(route.targets).toEqual(targets)
    expect(route.through([at, other])).toBe(through)
  })

  test('is rewritten in a config with a url', () => {
    const config = { adapter: '@locks/cas', store: 'redis', url: 'redis://127.0.0.1:9' } as const
    expect(routeOf(config).through([at])).toEqual({ ...config, url: 'redis://127.0.0.1:1' })
    expect(routeOf(config).remote).toEqual([])
  })

  test.each([
    'redis+cluster://a',
    'redis+sentinel://a/main',
    'rediss://a',
    'file:/x',
    'postgres://a/b?host=/run',
  ])('of %s has no proxy, for a reason', (url) => {
    expect(routeOf(url).targets).toEqual([])
    expect(routeOf(url).noWire).toMatch(/./)
  })

  test('names remote hosts', () => {
    expect(routeOf('redis://localhost').remote).toEqual([])
    expect(routeOf('redis+cluster://127.0.0.1:1,db.example.com:2').remote).toEqual(['db.example.com'])
  })
})

describe('the length of a lease', () => {
  test.each([
    ['watched by each client where the store has no clock', 'file', true],
    ['the same for every client where the store has one', 'memory', false],
  ])('is %s', async (_, kind, watched) => {
    const config = kind === 'file' ? (await store()).url : 'memory:watched'
    const open = (): Promise<Locks> => openLocks(config, { ttlMs: 500 })
    const locks = await open()
    expect(await isWatched(locks, open, 'name')).toBe(watched)
    expect((await locks.inspect('name')).held).toBe(false)
    await locks.close()
  })

  test.each([
    ['while it acquired', 1, 0],
    ['until after the hold', 0, 1],
    ['at both times', 2, 1],
  ])('is looked for again when this process stood still %s', async (_, before, after) => {
    const { url } = await store()
    const open = (): Promise<Locks> => openLocks(url, { ttlMs: 500 })
    const locks = await open()
    const left = { before, after }
    const stalling = {
      lock: (name: string): Pick<Lock, 'acquire'> => ({
        async acquire(options) {
          if (left.before-- > 0) block(450)
          const lease = await locks.lock(name).acquire(options)
          if (left.after-- > 0) setTimeout(() => block(700), 100)
          return lease
        },
      }),
    }
    expect(await isWatched(stalling, open, 'name')).toBe(true)
    expect(left.before).toBeLessThan(0)
    // It may have looked before the hold that ended was gone, and then seen enough.
    expect(left.after).toBeLessThanOrEqual(0)
    await locks.close()
  })
})

const bounds = {
  ttlMs: 1_000,
  lingerMs: 2_000,
  watched: false,
  sessions: false,
  fenced: true,
  byConnection: false,
}
const act = (t: number, process: string) => ({ t, process, name: 'n', task: 't1' })

/** Held from `from` to its last check at `until`. */
function held(process: string, from: number, until: number, fence: bigint): HistoryEvent[] {
  return [
    { ...act(from - 1, process), type: 'acquire-called' },
    { ...act(from, process), type: 'granted', fence, deadline: from },
    { ...act(until, process), type: 'renewed', fence, deadline: until },
    { ...act(until + 1, process), type: 'release-called', fence },
    { ...act(until + 2, process), type: 'released', fence },
  ]
}

function busy(process: string, from: number, until: number): HistoryEvent[] {
  const failed = { type: 'acquire-failed', outcome: 'fail', code: 'busy' } as const
  return [
    { ...act(from, process), type: 'acquire-called' },
    { ...act(until, process), ...failed },
  ]
}

function verdictOf(events: readonly HistoryEvent[], changed: Partial<typeof bounds> = {}) {
  const sorted = events.toSorted((a, b) => a.t - b.t)
  const { violations, withinBound } = judge(sorted, { ...bounds, ...changed })
  return { violations: violations.map(({ check }) => check), withinBound: withinBound.length }
}

describe('the verdict', () => {
  test('a hold ends with its last check, however long its release takes', () => {
    expect(verdictOf([...held('w1.1', 10, 20, 1n), ...held('w2.1', 20.5, 30, 2n)]).violations).toEqual([])
    expect(verdictOf([...held('w1.1', 10, 20, 1n), ...held('w2.1', 19, 30, 2n)]).violations).toEqual([
      'two holders',
    ])
  })

  test('a fence that does not rise, or repeats, is found', () => {
    expect(verdictOf([...held('w1.1', 10, 20, 2n), ...held('w2.1', 30, 40, 1n)]).violations).toContain(
      'fence order',
    )
    expect(verdictOf([...held('w1.1', 10, 20, 2n), ...held('w2.1', 30, 40, 2n)]).violations).toContain(
      'fence order',
    )
    expect(
      verdictOf([...held('w1.1', 10, 20, 2n), ...held('w2.1', 30, 40, 1n)], { fenced: false }).violations,
    ).toEqual([])
  })

  test('a fault that broke a connection excuses an overlap of locks bound to it, never a falling fence', () => {
    const fault = { process: 'nemesis', type: 'fault', label: 'cut w1', class: 'E' } as const
    const cut: HistoryEvent[] = [
      { ...fault, t: 12, phase: 'begin' },
      { ...fault, t: 13, phase: 'end' },
    ]
    const both = [...held('w1.1', 10, 20, 1n), ...held('w2.1', 15, 30, 2n)]
    expect(verdictOf([...both, ...cut], { byConnection: true })).toEqual({ violations: [], withinBound: 1 })
    expect(verdictOf(both, { byConnection: true }).violations).toEqual(['two holders'])
    expect(verdictOf([...both, ...cut]).violations).toEqual(['two holders'])
    // Entered again at 11, and released once at 12: a reader of the history sees a lock that was free by then.
    const again: HistoryEvent[] = [
      { ...act(11, 'w1.1'), type: 'acquire-called' },
      { ...act(11.1, 'w1.1'), type: 'granted', fence: 1n, deadline: 11.1 },
      { ...act(12, 'w1.1'), type: 'release-called', fence: 1n },
      { ...act(12.1, 'w1.1'), type: 'released', fence: 1n },
    ]
    expect(verdictOf([...both, ...again]).violations).toEqual(['two holders', 'release'])
    expect(verdictOf([...both, ...again, ...cut], { byConnection: true })).toEqual({
      violations: [],
      withinBound: 1,
    })
    const long = [...held('w1.1', 10, 2_000, 1n), ...held('w2.1', 15, 3_000, 2n)]
    expect(verdictOf([...long, ...cut], { byConnection: true }).violations).toEqual(['two holders'])
    const reversed = [...held('w1.1', 10, 20, 2n), ...held('w2.1', 15, 30, 1n)]
    expect(verdictOf([...reversed, ...cut], { byConnection: true }).violations).toEqual(['fence order'])
  })

  test('"held" is correct only if another attempt held the name, waited, or may have', () => {
    expect(verdictOf([...held('w1.1', 10, 20, 1n), ...busy('w2.1', 15, 16)]).violations).toEqual([])
    expect(verdictOf([...held('w1.1', 10, 20, 1n), ...busy('w2.1', 30, 31)]).violations).toEqual([
      'held by nobody',
    ])
  })

  test('an unknown attempt may count until its faults are over and the store has answered its process', () => {
    const failed = { type: 'acquire-failed', outcome: 'info', code: 'LOCK_UNAVAILABLE' } as const
    const unknown: HistoryEvent[] = [
      { ...act(10, 'w1.1'), type: 'acquire-called' },
      { ...act(12, 'w1.1'), ...failed },
    ]
    const fault = { process: 'nemesis', type: 'fault', label: 'server-restart server', class: 'E' } as const
    const restart: HistoryEvent[] = [
      { ...fault, t: 5, phase: 'begin' },
      { ...fault, t: 9_000, phase: 'end' },
    ]
    const answered = held('w1.1', 100, 110, 1n).map((event) => ({ ...event, name: 'other' }))
    const asked = busy('w1.1', 10_000, 10_001)
    expect(verdictOf([...unknown, ...asked]).violations).toEqual([])
    expect(verdictOf([...unknown, ...answered, ...asked]).violations).toEqual(['held by nobody'])
    expect(verdictOf([...unknown, ...restart, ...answered, ...asked]).violations).toEqual([])
    const later = busy('w1.1', 12_000, 12_001)
    expect(verdictOf([...unknown, ...restart, ...answered, ...later]).violations).toEqual(['held by nobody'])
  })

  test('a dead holder may count for a while, and longer if it has to be observed', () => {
    const crash: HistoryEvent = { t: 15, process: 'nemesis', type: 'crash', victim: 'w1.1' }
    const dead: HistoryEvent[] = [...held('w1.1', 10, 14, 1n).slice(0, 3), crash]
    expect(verdictOf([...dead, ...busy('w1.2', 1_500, 1_501)]).violations).toEqual([])
    expect(verdictOf([...dead, ...busy('w1.2', 2_500, 2_501)]).violations).toEqual(['held by nobody'])
    expect(verdictOf([...dead, ...busy('w1.2', 2_500, 2_501)], { watched: true }).violations).toEqual([])
    const fault = { process: 'nemesis', type: 'fault', label: 'server-kill server', class: 'E' } as const
    const outage: HistoryEvent[] = [
      { ...fault, t: 1_000, phase: 'begin' },
      { ...fault, t: 3_500, phase: 'end' },
    ]
    const afterwards = [...dead, ...outage, ...busy('w1.2', 4_000, 4_001)]
    expect(verdictOf(afterwards).violations).toEqual(['held by nobody'])
    expect(verdictOf(afterwards, { sessions: true }).violations).toEqual([])
    const muchLater = [...dead, ...outage, ...busy('w1.2', 6_000, 6_001)]
    expect(verdictOf(muchLater, { sessions: true }).violations).toEqual(['held by nobody'])
    const next = held('w2.1', 3_000, 3_001, 2n)
    const late = [...dead, ...next, ...busy('w1.2', 4_000, 4_001)]
    expect(verdictOf(late, { watched: true }).violations).toEqual(['held by nobody'])
  })
})
