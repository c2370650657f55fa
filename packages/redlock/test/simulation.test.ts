import type { Clock, Holder } from '@locks/core'
import type { AcquireRequest, Renewal, RenewOutcome } from '@locks/core/adapter'
import { keptAttemptId, safeTtlMs } from '@locks/core/adapter'
import type { Look, RedisNode, Refusal } from '@locks/redis/node'
import { expect, test } from 'vitest'
import { atLength } from '../../../conformance/selection.ts'
import { redlockAdapter } from '../src/adapter.ts'
import { Nodes } from '../src/nodes.ts'

/** Mulberry32: every run is the same, and a failure can be looked into. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Time that only passes when nothing else is left to do. */
class VirtualClock implements Clock {
  #now = 0
  readonly #timers: { at: number; fire: () => void }[] = []
  readonly random: () => number

  constructor(random: () => number) {
    this.random = random
  }

  now(): number {
    return this.#now
  }

  timer(delayMs: number, fire: () => void) {
    const entry = { at: this.#now + delayMs, fire }
    let [low, high] = [0, this.#timers.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#timers[middle]?.at ?? 0) > entry.at) low = middle + 1
      else high = middle
    }
    // Latest first, so that the next one is taken off the end.
    this.#timers.splice(low, 0, entry)
    const cancel = (): void => {
      const index = this.#timers.indexOf(entry)
      if (index >= 0) this.#timers.splice(index, 1)
    }
    return { cancel, keepAlive: () => undefined }
  }

  async run(done: () => boolean): Promise<void> {
    while (!done()) {
      await new Promise((resolve) => setImmediate(resolve))
      if (done()) return
      const next = this.#timers.pop()
      if (next === undefined) throw new Error('nothing left to do')
      this.#now = Math.max(this.#now, next.at)
      next.fire()
    }
  }
}

/**
 * A server in memory that loses requests and replies, is slow, and is down now and then. Its counter is a
 * plain one, without the help of a clock: so the write-back alone keeps fences in order.
 */
class SimulatedNode implements RedisNode {
  readonly #clock: VirtualClock
  #token = 0n
  readonly #held = new Map<string, { attempt: string; holder: Holder; fence: bigint; until: number }>()
  downUntil = 0

  constructor(clock: VirtualClock, startsAt: bigint) {
    this.#clock = clock
    this.#token = startsAt
  }

  attempt({ name, attemptId, ttlMs, owner }: AcquireRequest): Promise<bigint | Refusal> {
    return this.#over(() => {
      const held = this.#lookUp(name)
      if (held !== undefined && held.attempt !== attemptId) {
        const remainingMs = held.until - this.#clock.now()
        const { attempt, holder } = held
        return { busy: true, attempt, holder, foreign: false, remainingMs, position: -1, serverTime: 0 }
      }
      const fence = held?.fence ?? ++this.#token
      this.#held.set(name, {
        attempt: attemptId,
        holder: { owner },
        fence,
        until: Math.max(held?.until ?? 0, this.#clock.now() + ttlMs),
      })
      return fence
    })
  }

  release(name: string, attemptId: string, keepMs = 0): Promise<'released' | 'not-held'> {
    return this.#over(() => {
      const held = this.#lookUp(name)
      const kept = keptAttemptId(attemptId)
      if (keepMs > 0 && held?.attempt === kept) return 'released'
      if (held?.attempt !== attemptId) return 'not-held'
      if (keepMs === 0) this.#held.delete(name)
      else this.#held.set(name, { ...held, attempt: kept, until: this.#clock.now() + keepMs })
      return 'released'
    })
  }

  renew(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]> {
    return this.#over(() =>
      renewals.map(({ grant, ttlMs }) => {
        const held = this.#lookUp(grant.name)
        if (held?.attempt !== grant.attemptId) return 'lost'
        held.until = Math.max(held.until, this.#clock.now() + ttlMs)
        return 'renewed'
      }),
    )
  }

  async *prune(): AsyncGenerator<number, void> {
    yield 0
  }

  look(name: string): Promise<Look> {
    return this.#over(() => {
      const held = this.#lookUp(name)
      return { attempt: held?.attempt, holder: held?.holder, remainingMs: 0, waiters: 0, waiting: [] }
    })
  }

  raise(name: string, attemptId: string, fence: bigint, minted: bigint): Promise<boolean> {
    return this.#over(() => {
      const held = this.#lookUp(name)
      if (held?.attempt !== attemptId) return false
      if (held.fence < fence || held.fence === minted) held.fence = fence
      if (this.#token < fence) this.#token = fence
      return true
    })
  }

  async names(): Promise<void> {}

  async diagnose(): Promise<readonly []> {
    return []
  }

  async identity(): Promise<undefined> {}

  watch(): () => void {
    return () => undefined
  }

  close(): void {}

  #lookUp(name: string) {
    const held = this.#held.get(name)
    return held !== undefined && held.until > this.#clock.now() ? held : undefined
  }

  /** There and back: each way may take a while, or be the end of it. */
  #over<T>(act: () => T): Promise<T> {
    const { random } = this.#clock
    // Now and then longer than anybody waits, so that votes come late.
    const way = (): number => random() * (random() < 0.05 ? 80 : 10)
    return new Promise((resolve, reject) => {
      const lost = (): void => reject(new Error('lost on the way'))
      this.#clock.timer(way(), () => {
        if (this.#clock.now() < this.downUntil || random() < 0.03) return lost()
        const result = act()
        this.#clock.timer(way(), () => (random() < 0.03 ? lost() : resolve(result)))
      })
    })
  }
}

const nodeTimeoutMs = 25

/** Three clients that acquire and release one lock until they have held it `aim` times. */
async function simulate(
  fencing: boolean,
  aim: number,
): Promise<{ readonly grants: readonly bigint[]; readonly most: number }> {
  const random = randomFrom(20_260_102)
  const clock = new VirtualClock(random)
  // Counters that have drifted apart, as those of independent servers do.
  const all = [0n, 500n, 40n, 7_000n, 3n].map((token) => new SimulatedNode(clock, token))
  const grants: bigint[] = []
  let [holders, most] = [0, 0]
  const pause = (ms: number): Promise<void> => new Promise((resolve) => clock.timer(ms, resolve))

  const insist = async (act: () => Promise<unknown>): Promise<void> => {
    for (let tries = 0; tries < 10; tries += 1) {
      const done = await act().then(
        () => true,
        () => false,
      )
      if (done) return
      await pause(random() * 10)
    }
  }

  const client = async (clientId: string): Promise<void> => {
    const nodes = new Nodes(all, 3, nodeTimeoutMs, clock)
    const adapter = redlockAdapter(nodes, fencing, { clientId, clock, report: () => undefined })
    for (let n = 0; grants.length < aim; n += 1) {
      const attemptId = `${clientId}:${n}`
      const terms = { mode: 'exclusive', ttlMs: 200, lockDelayMs: 0, willWait: false } as const
      const metadata = { host: 'simulated', pid: 1 }
      const request = { name: 'lock', attemptId, owner: attemptId, metadata, ...terms }
      // As core counts: from before the request, and less what clocks may differ by.
      let deadline = clock.now() + safeTtlMs(request.ttlMs)
      // Too few nodes may answer.
      const answer = await adapter.attempt(request).catch(() => undefined)
      if (answer !== undefined && 'fence' in answer && clock.now() < deadline) {
        grants.push(answer.fence)
        most = Math.max(most, ++holders)
        // Only while its answer comes in time for sure.
        if (random() < 0.3 && deadline - clock.now() > 2 * nodeTimeoutMs) {
          const renewedUntil = clock.now() + safeTtlMs(request.ttlMs)
          const renewal = { grant: answer, ttlMs: request.ttlMs, lockDelayMs: 0 }
          const [outcome] = await adapter.renew([renewal]).catch(() => ['unknown'])
          if (outcome === 'renewed') deadline = renewedUntil
          if (outcome === 'lost') deadline = 0
        }
        await pause(Math.max(0, Math.min(random() * 30, deadline - clock.now())))
        holders -= 1
      }
      // As core does; what cannot be freed ends by its ttl.
      await insist(async () => adapter.withdraw?.(request))
      await pause(random() * 20)
    }
  }

  const chaos = async (): Promise<void> => {
    while (grants.length < aim) {
      const node = all[Math.floor(random() * all.length)]
      if (node !== undefined) node.downUntil = clock.now() + random() * 200
      await pause(random() * 500)
    }
  }

  let running = true
  const work = Promise.all(['a', 'b', 'c'].map(client)).then(() => (running = false))
  void chaos()
  await clock.run(() => !running)
  await work
  return { grants, most }
}

function fallsOf(grants: readonly bigint[]): number {
  return grants.filter((fence, n) => n > 0 && fence <= (grants[n - 1] ?? 0n)).length
}

const GRANTS = atLength(2_000, 10_000)

test(`in virtual time, over ${GRANTS} grants with failing nodes, fences strictly increase and holds never overlap`, async () => {
  const { grants, most } = await simulate(true, GRANTS)
  expect(grants.length).toBeGreaterThanOrEqual(GRANTS)
  expect(most).toBe(1)
  expect(fallsOf(grants)).toBe(0)
})

test('without the write-back the same simulation sees fences fall', async () => {
  const { grants } = await simulate(false, 1_000)
  expect(fallsOf(grants)).toBeGreaterThan(0)
})
