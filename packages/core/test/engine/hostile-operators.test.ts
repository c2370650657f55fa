import { describe, expect, test } from 'vitest'
import { Bed, CASES, holder, isAbsent, isCount, isFlag, isText, never } from '../support/hostile-bed.ts'
import { stateFields } from '../support/hostile-bed.ts'

describe(`${CASES} hostile answers to operators`, () => {
  test('of inspect: what it shows is well-formed', async () => {
    const bed = new Bed()
    const locks = bed.client({
      inspect: (name: string) =>
        bed.answer(name, () => {
          const good = { name, held: true, holder, remainingMs: 5, waiters: 2 }
          return bed.hostile.record(good, { name: never, ...stateFields })
        }),
    })
    await bed.run(
      (name) => locks.inspect(name),
      ({ good }, { value }) => expect(value).toEqual(good),
    )
    await bed.end(locks)
  })

  test('of list: what it shows is well-formed', async () => {
    const bed = new Bed()
    const locks = bed.client({
      list: () =>
        bed.answer(bed.current, () => {
          const good = { name: 'a', held: true, holder, remainingMs: 5, waiters: 2 }
          return bed.hostile.record(good, { name: isText, ...stateFields }, (one) => [one])
        }),
    })
    await bed.run(
      (name) => locks.list({ limit: (bed.current = name).length }),
      ({ good }, { value }) => expect(value).toEqual(good),
    )
    await bed.end(locks)
  })

  test('of break: broken only by a good answer', async () => {
    const bed = new Bed()
    const isOutcome = (value: unknown): boolean => value === 'broken' || value === 'not-held'
    const locks = bed.client({
      inspect: async (name: string) => ({ name, held: true, holder }),
      break: (name: string) => bed.answer(name, () => bed.hostile.word(['broken', 'not-held'], isOutcome)),
    })
    await bed.run(
      (name) => locks.lock(name).break(),
      ({ fate, good }, { value }) => {
        if (fate === 'accept') expect(value).toEqual(good === 'broken' ? holder : null)
      },
    )
    await bed.end(locks)
  })

  test('of diagnose: findings are well-formed', async () => {
    const bed = new Bed()
    const good = { check: 'eviction', level: 'warning', message: 'm', advice: 'a' }
    const isAdvice = (value: unknown): boolean => value === undefined || isText(value)
    const fields = { check: isText, level: never, message: isText, advice: isAdvice }
    const locks = bed.client({
      diagnose: () => bed.answer(bed.current, () => bed.hostile.record(good, fields, (one) => [one])),
    })
    await bed.run(
      (name) => ((bed.current = name), locks.diagnose()),
      (answer, { value }) => expect(value).toEqual(answer.good),
    )
    await bed.end(locks)
  })

  test('of prune: a bad answer to a step fails the call, and only good ones are counted', async () => {
    const bed = new Bed()
    const begun = new Set<string>()
    const kept = { names: 2, why: 'w' }
    const locks = bed.client({
      prune: (_: number, [name = '']: readonly string[] = []) => {
        if (!begun.has(name)) return begun.add(name) && { pruned: 2, more: true, kept }
        return bed.answer(name, () => {
          const good = { pruned: 3, more: false }
          return bed.hostile.pick(true, false)
            ? bed.hostile.record(good, { pruned: isCount, more: isFlag, kept: isAbsent })
            : bed.hostile.record(kept, { names: isCount, why: isText }, (one) => ({ ...good, kept: one }))
        })
      },
    })
    await bed.run(
      (name) => locks.prune({ names: [name] }),
      ({ fate }, { value }) => expect(value).toBe(fate === 'accept' ? 5 : undefined),
    )
    expect(begun.size).toBe(CASES)
    await bed.end(locks)
  })
})
