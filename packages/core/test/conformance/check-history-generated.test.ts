import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { checkHistory, summarise } from '../../src/conformance/check-history.ts'
import type { HistoryEvent } from '../../src/conformance/history.ts'
import { accepts, actor, broken } from './history-actors.ts'

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
        expect(broken(moved)).toContain('exclusion')
      }),
    )
  })
})
