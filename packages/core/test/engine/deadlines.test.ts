import { describe, expect, test } from 'vitest'
import { Timers } from '../../src/engine/deadlines.ts'
import type { Alarm, AlarmTarget } from '../../src/engine/deadlines.ts'
import { fc } from '../support/fast-check.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

/** Records when it fires. */
class Bell implements AlarmTarget {
  readonly rings: number[] = []
  readonly alarm: Alarm
  readonly #onRing: (now: number) => void

  constructor(
    timers: Timers,
    {
      keepsAlive = false,
      onRing = () => undefined,
    }: { keepsAlive?: boolean; onRing?: (now: number) => void } = {},
  ) {
    this.alarm = timers.alarm(this, keepsAlive ? 'ref' : 'unref')
    this.#onRing = onRing
  }

  fire(now: number): void {
    this.rings.push(now)
    this.#onRing(now)
  }
}

function setUp(): { clock: VirtualClock; timers: Timers; start: number } {
  const clock = new VirtualClock()
  return { clock, timers: new Timers(clock), start: clock.now() }
}

describe('timers', () => {
  test('each rings once, at its time, in order, unless cancelled or moved: against a plain list', async () => {
    const operation = fc.record({
      kind: fc.constantFrom('set', 'set', 'cancel', 'advance'),
      who: fc.nat(15),
      ms: fc.integer({ min: 0, max: 200 }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 60 }), async (operations) => {
        const { clock, timers } = setUp()
        const rung: string[] = []
        const bells = Array.from(
          { length: 16 },
          (_, i) => new Bell(timers, { onRing: (now) => rung.push(`${i}@${now}`) }),
        )
        const model = new Map<number, number>()
        const expected: string[] = []
        for (const { kind, who, ms } of operations) {
          const bell = bells[who]
          if (bell === undefined) continue
          if (kind === 'set') {
            bell.alarm.set(clock.now() + ms)
            model.set(who, clock.now() + ms)
          } else if (kind === 'cancel') {
            bell.alarm.cancel()
            model.delete(who)
          } else {
            const until = clock.now() + ms
            await clock.advance(ms)
            for (const [i, at] of [...model].filter(([, due]) => due <= until)) {
              expected.push(`${i}@${at}`)
              model.delete(i)
            }
          }
          expect(timers.size).toBe(model.size)
          expect(clock.armed).toBeLessThanOrEqual(1)
        }
        const times = rung.map((entry) => Number(entry.split('@')[1]))
        expect(times).toEqual([...times].sort((a, b) => a - b))
        expect([...rung].sort()).toEqual([...expected].sort())
      }),
      { numRuns: 60 },
    )
  })

  test('any number of alarms use one system timer', () => {
    const { clock, timers, start } = setUp()
    for (let i = 0; i < 10_000; i += 1) new Bell(timers).alarm.set(start + 10_000 - i)
    expect(timers.size).toBe(10_000)
    expect(clock.armed).toBe(1)
  })

  test('setting later alarms touches no system timer', () => {
    const { clock, timers, start } = setUp()
    new Bell(timers).alarm.set(start + 10)
    const { created } = clock
    for (let i = 0; i < 1_000; i += 1) {
      const bell = new Bell(timers)
      bell.alarm.set(start + 20)
      bell.alarm.cancel()
    }
    expect(clock.created).toBe(created)
  })

  test('slack lets an alarm ring early, but only together with one that is due', async () => {
    const { clock, timers, start } = setUp()
    const [due, near, far] = [new Bell(timers), new Bell(timers), new Bell(timers)]
    due.alarm.set(start + 10)
    near.alarm.set(start + 14, 5)
    far.alarm.set(start + 16, 5)
    await clock.advance(10)
    expect([due.rings, near.rings, far.rings]).toEqual([[start + 10], [start + 10], []])
    await clock.advance(6)
    expect(far.rings).toEqual([start + 16])
  })

  test('an alarm may set itself and others while it rings', async () => {
    const { clock, timers, start } = setUp()
    const other = new Bell(timers)
    const again: Bell = new Bell(timers, {
      onRing: (now) => {
        if (again.rings.length < 3) again.alarm.set(now + 10)
        other.alarm.set(now)
      },
    })
    again.alarm.set(start + 10)
    await clock.advance(100)
    expect(again.rings).toEqual([start + 10, start + 20, start + 30])
    expect(other.rings).toEqual([start + 10, start + 20, start + 30])
  })

  test('the process is kept alive exactly while an alarm that asks for it is set', async () => {
    const { clock, timers, start } = setUp()
    const [quiet, one, two] = [
      new Bell(timers),
      new Bell(timers, { keepsAlive: true }),
      new Bell(timers, { keepsAlive: true }),
    ]
    quiet.alarm.set(start + 5)
    expect(clock.keepsAlive).toBe(false)
    one.alarm.set(start + 50)
    two.alarm.set(start + 60)
    two.alarm.set(start + 70)
    expect(clock.keepsAlive).toBe(true)
    await clock.advance(10)
    expect(clock.keepsAlive).toBe(true)
    one.alarm.cancel()
    expect(clock.keepsAlive).toBe(true)
    two.alarm.cancel()
    two.alarm.cancel()
    expect(clock.keepsAlive).toBe(false)
    quiet.alarm.set(start + 20)
    expect(clock.keepsAlive).toBe(false)
  })

  test('a time that is not a number rings after a while, and neither loops nor disturbs the others', async () => {
    const { clock, timers, start } = setUp()
    const other = new Bell(timers)
    const broken: Bell = new Bell(timers, { onRing: () => broken.alarm.set(NaN) })
    for (const time of [NaN, -Infinity, Infinity, NaN]) broken.alarm.set(time)
    other.alarm.set(start + 5)
    await clock.advance(10_000)
    expect(other.rings).toEqual([start + 5])
    expect(broken.rings).toHaveLength(10)
  })

  test('alarms that set themselves for a time that is over let other work go on', async () => {
    const { clock, timers, start } = setUp()
    let worked = 0
    const eager: Bell = new Bell(timers, {
      onRing: (now) => {
        if (eager.rings.length < 100) eager.alarm.set(now - 1)
        setImmediate(() => (worked += 1))
      },
    })
    eager.alarm.set(start)
    await clock.advance(0)
    expect([eager.rings.length, worked]).toEqual([100, 100])
  })

  test('after stop nothing rings', async () => {
    const { clock, timers, start } = setUp()
    const bell = new Bell(timers, { keepsAlive: true })
    bell.alarm.set(start + 5)
    timers.stop()
    await clock.advance(100)
    expect(bell.rings).toEqual([])
    expect(clock.armed).toBe(0)
  })
})
