import { expect, test } from 'vitest'
import { codeOf, harness, watch } from './support/harness.ts'
import { seeded } from './support/hostile-answers.ts'
import { fail, hang, loseReply, slow, swallow } from './support/steps.ts'
import type { Step } from './support/steps.ts'

const STORE_TIMEOUT_MS = 3_000
const PAUSE_MS = 1_000

test.each([1, 2, 3, 4, 5, 6, 7, 8])(
  'every tryAcquire, release and inspect ends within storeTimeoutMs, not counting pauses of the process: seed %i',
  async (seed) => {
    const random = seeded(seed)
    const { clock, store, locks } = harness({
      locks: { storeTimeoutMs: STORE_TIMEOUT_MS },
      store: { wait: (_, maxMs) => new Promise((resolve) => clock.timer(maxMs, () => resolve(undefined))) },
    })
    const steps: readonly (() => Step | undefined)[] = [
      ...[() => undefined, () => undefined, () => fail(), () => loseReply(), () => hang, () => swallow],
      () => slow(random() * 5_000, random() * 5_000),
    ]
    const pick = <T>(choices: readonly T[]): T | undefined => choices[Math.floor(random() * choices.length)]
    let paused = 0
    const late: string[] = []
    let ended = 0
    const timed = async (what: string, work: () => Promise<unknown>): Promise<void> => {
      const [startedAt, pausedBefore] = [clock.now(), paused]
      await work().catch(() => undefined)
      ended += 1
      const pausedMs = paused - pausedBefore
      const tookMs = clock.now() - startedAt - pausedMs
      const bound = STORE_TIMEOUT_MS + (pausedMs >= PAUSE_MS ? PAUSE_MS : 0)
      if (tookMs > bound + 1) late.push(`${what} took ${tookMs} ms besides pauses of ${pausedMs} ms`)
    }
    let begun = 0
    for (let n = 0; n < 400; n += 1) {
      for (const method of ['attempt', 'release', 'withdraw', 'inspect'] as const) {
        const step = pick(steps)?.()
        if (step !== undefined && random() < 0.5) store.next(method, step)
      }
      const lock = locks.lock(pick(['a', 'b']) ?? 'a')
      if (random() < 0.3)
        void lock.acquire({ waitMs: Math.floor(random() * 8_000) }).then((l) => hold(l), ignore)
      begun += 2
      void timed('tryAcquire', async () => {
        const lease = await lock.tryAcquire({ ttlMs: 1_000 + Math.floor(random() * 5_000) })
        if (lease !== null) void hold(lease).catch(ignore)
      })
      void timed('inspect', () => lock.inspect())
      await clock.advance(random() * 2_000)
      if (random() < 0.1) {
        const ms = random() * 4_000
        paused += ms
        clock.block(ms)
      }
    }
    store.always('attempt')
    await clock.advance(60_000)
    expect(late).toEqual([])
    expect(ended).toBeGreaterThanOrEqual(begun)

    async function hold(lease: { release(): Promise<void> }): Promise<void> {
      await new Promise<void>((resolve) => clock.timer(random() * 3_000, resolve))
      begun += 1
      await timed('release', () => lease.release())
    }
  },
)

test.each([
  [3_000, 1_000],
  [200, 200],
])(
  'a pause across storeTimeoutMs %i lets an answer that came meanwhile be read, for %i ms and no longer',
  async (storeTimeoutMs, graceMs) => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs } })
    store.always('attempt', hang)
    store.always('inspect', hang)
    const ended = [watch(locks.lock('a').tryAcquire()), watch(locks.inspect('b'))]
    const states = (): string[] => ended.map(({ state }) => state)
    await clock.advance(storeTimeoutMs - 1)
    clock.block(3_300)
    await clock.advance(graceMs - 1)
    expect(states()).toEqual(['pending', 'pending'])
    await clock.advance(1)
    expect(ended.map(({ error }) => codeOf(error))).toEqual(['LOCK_UNAVAILABLE', 'LOCK_UNAVAILABLE'])
  },
)

function ignore(): void {}
