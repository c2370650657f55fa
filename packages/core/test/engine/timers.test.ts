import { describe, expect, test } from 'vitest'
import { Timers } from '../../src/engine/timers.ts'
import type { Alarm } from '../../src/engine/timers.ts'
import { fc } from '../support/fast-check.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

class Bell implements Alarm {
  at = 0
  slackMs = 0
  slot = -1
  readonly keepsAlive: boolean
  readonly rings: number[] = []
  readonly #onRing: (now: number) => void

  constructor({
    keepsAlive = false,
    onRing = () => undefined,
  }: { keepsAlive?: boolean; onRing?: (now: number) => void } = {}) {
    this.keepsAlive = keepsAlive
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
          (_, i) => new Bell({ onRing: (now) => rung.push(`${i}@${now}`) }),
        )
        const model = new Map<number, number>()
        const expected: string[] = []
        for (const { kind, who, ms } of operations) {
          const bell = bells[who]
          if (bell === undefined) continue
          if (kind === 'set') {
            timers.set(bell, clock.now() + ms)
            model.set(who, clock.now() + ms)
          } else if (kind === 'cancel') {
            timers.cancel(bell)
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
    for (let i = 0; i < 10_000; i += 1) timers.set(new Bell(), start + 10_000 - i)
    expect(timers.size).toBe(10_000)
    expect(clock.armed).toBe(1)
  })

  test('setting later alarms touches no system timer', () => {
    const { clock, timers, start } = setUp()
    timers.set(new Bell(), start + 10)
    const { created } = clock
    for (let i = 0; i < 1_000; i += 1) {
      const bell = new Bell()
      timers.set(bell, start + 20)
      timers.cancel(bell)
    }
    expect(clock.created).toBe(created)
  })

  test('slack lets an alarm ring early, but only together with one that is due', async () => {
    const { clock, timers, start } = setUp()
    const [due, near, far] = [new Bell(), new Bell(), new Bell()]
    near.slackMs = 5
    far.slackMs = 5
    timers.set(due, start + 10)
    timers.set(near, start + 14)
    timers.set(far, start + 16)
    await clock.advance(10)
    expect([due.rings, near.rings, far.rings]).toEqual([[start + 10], [start + 10], []])
    await clock.advance(6)
    expect(far.rings).toEqual([start + 16])
  })

  test('an alarm may set itself and others while it rings', async () => {
    const { clock, timers, start } = setUp()
    const other = new Bell()
    const again: Bell = new Bell({
      onRing: (now) => {
        if (again.rings.length < 3) timers.set(again, now + 10)
        timers.set(other, now)
      },
    })
    timers.set(again, start + 10)
    await clock.advance(100)
    expect(again.rings).toEqual([start + 10, start + 20, start + 30])
    expect(other.rings).toEqual([start + 10, start + 20, start + 30])
  })

  test('the process is kept alive exactly while an alarm that asks for it is set', async () => {
    const { clock, timers, start } = setUp()
    const [quiet, one, two] = [new Bell(), new Bell({ keepsAlive: true }), new Bell({ keepsAlive: true })]
    timers.set(quiet, start + 5)
    expect(clock.keepsAlive).toBe(false)
    timers.set(one, start + 50)
    timers.set(two, start + 60)
    timers.set(two, start + 70)
    expect(clock.keepsAlive).toBe(true)
    await clock.advance(10)
    expect(clock.keepsAlive).toBe(true)
    timers.cancel(one)
    expect(clock.keepsAlive).toBe(true)
    timers.cancel(two)
    timers.cancel(two)
    expect(clock.keepsAlive).toBe(false)
    timers.set(quiet, start + 20)
    expect(clock.keepsAlive).toBe(false)
  })

  test('a time that is not a number rings after a while, and neither loops nor disturbs the others', async () => {
    const { clock, timers, start } = setUp()
    const other = new Bell()
    const broken: Bell = new Bell({ onRing: () => timers.set(broken, NaN) })
    for (const time of [NaN, -Infinity, Infinity, NaN]) timers.set(broken, time)
    timers.set(other, start + 5)
    await clock.advance(10_000)
    expect(other.rings).toEqual([start + 5])
    expect(broken.rings).toHaveLength(10)
  })

  test('alarms that set themselves for a time that is over let other work go on', async () => {
    const { clock, timers, start } = setUp()
    let worked = 0
    const eager: Bell = new Bell({
      onRing: (now) => {
        if (eager.rings.length < 100) timers.set(eager, now - 1)
        setImmediate(() => (worked += 1))
      },
    })
    timers.set(eager, start)
    await clock.advance(0)
    expect([eager.rings.length, worked]).toEqual([100, 100])
  })

  test('after stop nothing rings', async () => {
    const { clock, timers, start } = setUp()
    const bell = new Bell({ keepsAlive: true })
    timers.set(bell, start + 5)
    timers.stop()
    await clock.advance(100)
    expect(bell.rings).toEqual([])
    expect(clock.armed).toBe(0)
  })
})
