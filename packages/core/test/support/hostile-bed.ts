import { expect } from 'vitest'
import { createLocks } from '../../src/index.ts'
import type { AdapterFactory, Locks } from '../../src/index.ts'
import type { AcquireRequest, Adapter, Grant } from '../../src/adapter/index.ts'
import { atLength } from '../../../../conformance/selection.ts'
import { codeOf, watch } from './harness.ts'
import type { Watched } from './harness.ts'
import { Hostile } from './hostile-answers.ts'
import type { Answer, Fields } from './hostile-answers.ts'
import { ScriptedStore } from './scripted-adapter.ts'
import { VirtualClock } from './virtual-clock.ts'

export const CASES = atLength(2_000, 10_000)
const BATCH = 1_000
export const SEED = Number(process.env['LOCKS_FUZZ_SEED'] ?? 20_261)
export const FENCE = 7n
export const TTL_MS = 30_000
const LONG_MS = 120_000

type Methods = Readonly<Record<string, (...args: never[]) => unknown>>

/** Clients of a store with some methods replaced by the test, which may return anything. */
export class Bed {
  readonly clock = new VirtualClock()
  readonly store = new ScriptedStore({
    capabilities: { list: true, break: true },
    wait: async () => undefined,
  })
  readonly hostile = new Hostile(SEED)
  /** Names of requests that were withdrawn. */
  readonly withdrawn = new Set<string>()
  /** The case of a call without a name. */
  current = ''
  readonly #answers = new Map<string, Answer>()

  client(methods: Methods): Locks {
    const factory: AdapterFactory = (host) => {
      const plain = this.store.factory(host)
      const inner: Adapter = {
        ...plain,
        list: async () => [],
        break: async () => 'broken',
        diagnose: async () => [],
        withdraw: async (request) => {
          this.withdrawn.add(request.name)
          await plain.withdraw?.(request)
        },
      }
      return new Proxy(inner, {
        get: (target, key) => {
          const value: unknown = Reflect.get(target, key)
          return (typeof key === 'string' ? methods[key] : undefined) ?? value
        },
      })
    }
    return createLocks(factory, { clock: this.clock, ttlMs: TTL_MS })
  }

  /** The answer of a case, the same for each call. */
  answer(name: string, make: () => Answer): unknown {
    const known = this.#answers.get(name)
    if (known !== undefined) return known.play()
    const made = make()
    this.#answers.set(name, made)
    return made.play()
  }

  /** Runs every case. All must end, a failure with a `LockError`; if `strict`, every bad answer must fail. */
  async run(
    ask: (name: string) => Promise<unknown>,
    judge: (answer: Answer, outcome: Watched<unknown>, name: string) => void,
    { strict }: { readonly strict: boolean } = { strict: true },
  ): Promise<void> {
    const seen = { accept: 0, refuse: 0, silent: 0 }
    for (let from = 0; from < CASES; from += BATCH) {
      const asked = new Map<string, Watched<unknown>>()
      for (let n = from; n < from + BATCH; n += 1) asked.set(`case ${n}`, watch(ask(`case ${n}`)))
      await this.clock.advance(LONG_MS)
      for (const [name, outcome] of asked) {
        const answer = this.#answers.get(name)
        if (answer === undefined) throw new Error(`seed ${SEED}, ${name} was not asked for`)
        seen[answer.fate] += 1
        const ended = outcome.state === 'fulfilled' || codeOf(outcome.error) !== undefined
        const asItShould = !strict || answer.fate === 'accept' || outcome.state === 'rejected'
        if (!ended || !asItShould)
          throw new Error(`seed ${SEED}, ${name}: ${answer.fate}, but ${outcome.state}`, {
            cause: outcome.error,
          })
        judge(answer, outcome, name)
      }
    }
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(CASES / 100)
  }

  /** The client closes, and nothing is left that would keep a process alive. */
  async end(locks: Locks): Promise<void> {
    const closed = watch(locks.close())
    await this.clock.advance(LONG_MS)
    expect(closed.state).not.toBe('pending')
    expect(this.clock.keepsAlive).toBe(false)
  }
}

const isFence = (value: unknown): boolean => typeof value === 'bigint' && value > 0n && value < 2n ** 63n
export const isFlag = (value: unknown): boolean => typeof value === 'boolean'
export const isText = (value: unknown): boolean => typeof value === 'string'
export const isSpan = (value: unknown): boolean =>
  value === undefined || (typeof value === 'number' && Number.isFinite(value))
export const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0
export const isAbsent = (value: unknown): boolean => value === undefined
export const never = (): boolean => false

export const grantFields: Fields = {
  name: never,
  attemptId: never,
  fence: isFence,
  ttlMs: (value) => typeof value === 'number' && value > 0 && value <= TTL_MS,
}
export const stateFields: Fields = {
  held: isFlag,
  holder: isAbsent,
  remainingMs: isSpan,
  waiters: (value) => value === undefined || isCount(value),
}
export const holder = { owner: 'stranger', fence: FENCE, metadata: { host: 'h', pid: 1 }, since: 5 }
export const grantOf = ({ name, attemptId, ttlMs }: AcquireRequest): Grant => ({
  name,
  attemptId,
  fence: FENCE,
  ttlMs,
})
export const outage = 'LOCK_UNAVAILABLE'
