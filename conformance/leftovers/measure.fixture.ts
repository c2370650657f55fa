import { createLocks } from '@locks/core'
import { loadAdapter } from '@locks/core/adapter'
import { eventually } from '@locks/core/conformance'
import { expect, onTestFinished, test } from 'vitest'
import { stores } from './stores.ts'

/** Measures one store for `scripts/leftovers.mjs`, which says which, how many names and how long they are idle. */
const {
  LOCKS_LEFTOVERS_STORE: which = '',
  LOCKS_LEFTOVERS_NAMES: many,
  LOCKS_LEFTOVERS_IDLE_MS: idle,
} = process.env
const [names, fenceIdleMs] = [Number(many), Number(idle)]

/** So many names are in use at the same time. */
const TASKS = 8
const REPORTS = 10
/** Names that come back in the end. */
const RETURNING = 20
/** Beside the names of the last idle period. */
const MOST_LEFT = 1_000

const row = (...cells: readonly (string | number)[]): void =>
  console.log(cells.map((cell) => String(cell).padStart(12)).join(''))

test(`${which}: what is left of ${names} names`, async () => {
  const start = stores.get(which)
  if (start === undefined) throw new Error(`no store ${which}; there are ${[...stores.keys()].join(', ')}`)
  const store = await start()
  onTestFinished(() => store.close().then(() => undefined))
  // ZooKeeper keeps nothing of a free name, so there is nothing to set.
  const config = which === 'zookeeper' ? store.config : { ...store.config, fenceIdleMs }
  const locks = createLocks(await loadAdapter(config))
  onTestFinished(() => locks.close())

  const first = new Map<string, bigint>()
  let next = 0
  /** When how many names had been used. */
  const progress: { readonly at: number; readonly used: number }[] = []
  async function use(until: number): Promise<void> {
    while (next < until) {
      if (next % 100 === 0) progress.push({ at: performance.now(), used: next })
      const name = `order:${next++}`
      await locks.with(name, ({ fence }) => {
        if (first.size < RETURNING) first.set(name, fence)
      })
    }
  }
  row('names', 'per second', 'left', 'MB')
  const startedAt = performance.now()
  for (let report = 1; report <= REPORTS; report += 1) {
    const [from, since] = [next, performance.now()]
    const until = Math.round((names * report) / REPORTS)
    await Promise.all(Array.from({ length: TASKS }, () => use(until)))
    const perSecond = ((next - from) / (performance.now() - since)) * 1_000
    const { names: left, bytes } = await store.kept()
    row(next, perSecond.toFixed(0), left, (bytes / 1e6).toFixed(1))
  }
  const overall = (names / (performance.now() - startedAt)) * 1_000
  const { names: left } = await store.kept()
  const before = performance.now() - fenceIdleMs
  const ofLastPeriod = names - (progress.findLast(({ at }) => at <= before)?.used ?? 0)
  console.log(`${which}: ${left} of ${names} names left, ${overall.toFixed(0)} per second over all`)
  if (fenceIdleMs > 0) {
    console.log(`allowed: ${MOST_LEFT}, and ${ofLastPeriod} of the last idle period`)
    expect(left).toBeLessThanOrEqual(MOST_LEFT + ofLastPeriod)
    await eventually('the last names are dropped', fenceIdleMs * 20 + 20_000, async () => {
      await locks.with('last', () => undefined)
      return (await store.kept()).names <= MOST_LEFT
    })
  }
  for (const [name, fence] of first)
    await locks.with(name, (lease) => expect(lease.fence, `${name} came back`).toBeGreaterThan(fence))
  console.log(`fences of ${first.size} names that came back are higher`)
})
