import { describe, expect, test } from 'vitest'
import { createLocks } from '../../src/index.ts'
import type { AdapterFactory } from '../../src/index.ts'
import type { AcquireRequest, Grant, Renewal } from '../../src/adapter/index.ts'
import { newAttemptId } from '../../src/adapter/attempt-id.ts'
import { writeHandover } from '../../src/api/serialized-lease.ts'
import { codeOf, thrownCode } from '../support/harness.ts'
import { Hostile } from '../support/hostile-answers.ts'
import {
  Bed,
  CASES,
  FENCE,
  grantFields,
  grantOf,
  holder,
  isAbsent,
  isFlag,
  isSpan,
  never,
  outage,
  SEED,
  TTL_MS,
} from '../support/hostile-bed.ts'
import { ScriptedStore } from '../support/scripted-adapter.ts'

describe(`${CASES} hostile answers`, () => {
  test('of attempt: a lease only for a good grant, null only for a good busy, the rest is withdrawn', async () => {
    const bed = new Bed()
    const { hostile } = bed
    const busy = { busy: true, holder, retryInMs: 50 }
    const locks = bed.client({
      attempt: (request: AcquireRequest) =>
        bed.answer(request.name, () =>
          hostile.pick(0, 1) === 0
            ? hostile.record(grantOf(request), { ...grantFields, busy: isAbsent })
            : hostile.record(busy, {
                busy: (value) => value === true,
                holder: isAbsent,
                retryInMs: isSpan,
                fence: isAbsent,
              }),
        ),
      release: async () => 'released',
    })
    await bed.run(
      (name) => locks.lock(name).tryAcquire({ renew: false }),
      ({ fate, good }, { value, error }, name) => {
        if (fate !== 'accept') {
          expect(codeOf(error)).toBe(outage)
          expect(bed.withdrawn.has(name)).toBe(true)
        } else if (good !== null && typeof good === 'object' && 'busy' in good) expect(value).toBeNull()
        else expect(value).toMatchObject({ name, fence: FENCE })
      },
    )
    await bed.end(locks)
  })

  test('of wait: a lease only for a good grant, the rest is withdrawn', async () => {
    const bed = new Bed()
    const { hostile, clock } = bed
    const isPast = (value: unknown): boolean => typeof value === 'number' && value <= clock.now()
    const locks = bed.client({
      attempt: async () => ({ busy: true, holder, retryInMs: 50 }),
      wait: (request: AcquireRequest) =>
        bed.answer(request.name, () =>
          hostile.record(
            { ...grantOf(request), grantedAt: clock.now() },
            { ...grantFields, grantedAt: isPast },
          ),
        ),
      release: async () => 'released',
    })
    await bed.run(
      (name) => locks.lock(name).acquire({ waitMs: 200, renew: false }),
      ({ fate }, { value, error }, name) => {
        if (fate === 'accept') return expect(value).toMatchObject({ name, fence: FENCE })
        expect([outage, 'LOCK_TIMEOUT']).toContain(codeOf(error))
        expect(bed.withdrawn.has(name)).toBe(true)
      },
    )
    await bed.end(locks)
  })

  test('of adopt: a lease only for a good grant under the same fence, the rest is withdrawn', async () => {
    const bed = new Bed()
    const { hostile } = bed
    const isLost = (value: unknown): boolean => value === 'lost'
    const locks = bed.client({
      adopt: (_: unknown, request: AcquireRequest) =>
        bed.answer(request.name, () =>
          hostile.pick(0, 1) === 0
            ? hostile.word(['lost'], isLost)
            : hostile.record(grantOf(request), { ...grantFields, fence: (value) => value === FENCE }),
        ),
      release: async () => 'released',
    })
    const lease = { owner: 'o', fence: FENCE, ttlMs: TTL_MS, lockDelayMs: 0 }
    const attemptId = newAttemptId('0123abcd-0000-4000-8000-0123456789ab')
    await bed.run(
      (name) => locks.resume(writeHandover({ name, attemptId, ...lease }), { renew: false }),
      ({ fate, good }, { value, error }, name) => {
        if (fate !== 'accept') expect(codeOf(error)).toBe(outage)
        else if (good === 'lost') expect(codeOf(error)).toBe('LOCK_LOST')
        else return expect(value).toMatchObject({ name, fence: FENCE })
        expect(bed.withdrawn.has(name)).toBe(true)
      },
    )
    await bed.end(locks)
  })

  test('of renew: a lease is prolonged, or lost early, only by a good answer', async () => {
    const bed = new Bed()
    const words: readonly unknown[] = ['renewed', 'lost', 'unknown']
    const isOutcome = (value: unknown): boolean => words.includes(value)
    const locks = bed.client({
      renew: ([renewal]: readonly Renewal[]) =>
        bed.answer(renewal?.grant.name ?? '', () => {
          const { fate, good, play } = bed.hostile.word(['renewed', 'lost', 'unknown'], isOutcome)
          return fate === 'accept'
            ? { fate: good === 'unknown' ? 'refuse' : fate, good, play: async () => [good] }
            : { fate, play }
        }),
    })
    const ends: string[] = []
    await bed.run(
      async (name) => {
        const lease = await locks.lock(name).acquire({ renew: false })
        try {
          await lease.extend()
        } finally {
          ends.push(lease.state)
        }
      },
      ({ fate, good }, { state, error }) => {
        if (fate === 'accept' && good === 'renewed') expect(state).toBe('fulfilled')
        else expect(codeOf(error)).toBe(fate === 'accept' ? 'LOCK_LOST' : outage)
      },
    )
    expect(new Set(ends)).toEqual(new Set(['held', 'jeopardy', 'lost']))
    await bed.end(locks)
  })

  test('of release: released and lost only by a good answer', async () => {
    const bed = new Bed()
    const isOutcome = (value: unknown): boolean => value === 'released' || value === 'not-held'
    const locks = bed.client({
      release: ({ name }: Grant) =>
        bed.answer(name, () => bed.hostile.word(['released', 'not-held'], isOutcome)),
    })
    await bed.run(
      async (name) => (await locks.lock(name).acquire({ renew: false })).release(),
      ({ fate, good }, { state, error }) => {
        if (fate !== 'accept') expect(codeOf(error)).toBe(outage)
        else if (good === 'released') expect(state).toBe('fulfilled')
        else expect(codeOf(error)).toBe('LOCK_LOST')
      },
    )
    await bed.end(locks)
  })

  test('of withdraw: the caller is answered all the same, and the client closes', async () => {
    const bed = new Bed()
    const { hostile } = bed
    const locks = bed.client({
      attempt: () => Promise.reject(new Error('down')),
      withdraw: ({ name }: AcquireRequest) => bed.answer(name, () => hostile.word([undefined], never)),
    })
    await bed.run(
      (name) => locks.lock(name).tryAcquire(),
      (_, { error }) => expect(codeOf(error)).toBe(outage),
    )
    await bed.end(locks)
  })

  test('of close: the client ends all the same', async () => {
    const bed = new Bed()
    await bed.run(
      (name) => {
        const locks = bed.client({
          close: () => bed.answer(name, () => bed.hostile.word([undefined], () => true)),
        })
        return locks.close()
      },
      ({ fate }, { error }) =>
        expect([undefined, fate === 'accept' ? undefined : outage]).toContain(codeOf(error)),
      { strict: false },
    )
  })

  test('reports: none throws, none ends a lease, none makes a doubtful one good', async () => {
    const bed = new Bed()
    const { hostile, clock } = bed
    const locks = bed.client({})
    const leases = await Promise.all(['a', 'b', 'c'].map((name) => locks.lock(name).acquire({ ttlMs: 900 })))
    const report: unknown = bed.store.host?.report
    if (typeof report !== 'function') throw new Error('no host')
    for (let n = 0; n < CASES; n += 1) {
      const state = hostile.pick<unknown>('ok', 'lost', 'jeopardy', hostile.junk(), hostile.junk())
      const id = hostile.junk()
      const sane = state === 'ok' || state === 'lost' || state === 'jeopardy'
      if (sane && id === undefined) continue
      Reflect.apply(report, undefined, [state, id])
      const doubtful = !sane || typeof id !== 'string'
      for (const lease of leases) if (doubtful) expect(lease.state).toBe('jeopardy')
      if (n % 100 === 0) await clock.advance(400)
      for (const lease of leases) expect(['held', 'jeopardy']).toContain(lease.state)
    }
    await bed.end(locks)
  })

  test('as an adapter: createLocks refuses it at once', () => {
    const hostile = new Hostile(SEED)
    const store = new ScriptedStore()
    const isFunction = (value: unknown): boolean => typeof value === 'function'
    const isOptional = (value: unknown): boolean => value === undefined || isFunction(value)
    const methods = ['attempt', 'renew', 'release', 'inspect', 'adopt']
    const limit = (value: unknown): boolean =>
      typeof value === 'number' && Number.isSafeInteger(value) && value > 0
    const words = Object.fromEntries(
      ['scope', 'kind', 'fencing', 'wait', 'fairness', 'modes'].map((key) => [key, never]),
    )
    const flags = Object.fromEntries(
      ['handover', 'lockDelay', 'minHold', 'list', 'break'].map((key) => [key, isFlag]),
    )
    const fields = { ...words, ...flags, minTtlMs: limit, maxNameBytes: limit }
    const functions = {
      ...Object.fromEntries(methods.map((key) => [key, isFunction])),
      withdraw: isOptional,
      close: isOptional,
    }
    const factory: AdapterFactory = (host) => {
      const adapter = store.factory(host)
      const { capabilities } = adapter
      const spoilt = hostile.pick(
        () => hostile.spoil(adapter, functions),
        () => ({ ...adapter, capabilities: hostile.spoil(capabilities, fields) }),
      )()
      return new Proxy(adapter, { get: (_, key): unknown => Reflect.get(spoilt, key) })
    }
    for (let n = 0; n < CASES; n += 1)
      expect(
        thrownCode(() => createLocks(factory)),
        `seed ${SEED}, ${n}`,
      ).toBe('LOCK_INVALID_ARGUMENT')
    for (const nothing of [() => undefined, () => null, () => 5, async () => store.factory])
      expect(thrownCode(() => Reflect.apply(createLocks, undefined, [nothing]))).toBe('LOCK_INVALID_ARGUMENT')
  })
})
