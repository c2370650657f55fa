import { eventually } from '@locks/core/conformance'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test } from 'vitest'
import { Side } from './side.ts'
import type { Slice } from './side.ts'
import { stores } from './stores.ts'
import type { Kept } from './stores.ts'

/**
 * Measures one store for `scripts/leftovers.mjs`. Two clients, each with servers of its own, take turns: one drops idle
 * names, the other keeps everything. What slows the machine slows both, so their rates can be compared.
 */
const {
  LOCKS_LEFTOVERS_STORE: which = '',
  LOCKS_LEFTOVERS_NAMES: many,
  LOCKS_LEFTOVERS_IDLE_MS: idle,
  LOCKS_LEFTOVERS_MINUTES: minutes,
} = process.env
const [names, idleMs, limitMs] = [Number(many), Number(idle), Number(minutes) * 60_000]

/** Beside the names of the last idle period, and of the pause between two looks for idle names. */
const MOST_LEFT = 1_000
const PAUSES_PER_IDLE = 8
/** Most of what is dropped is dropped in the turn of the client that used it. */
const SLICE_MS = Math.max(10_000, idleMs * 5)
/** So many turns make a rate that can be judged. */
const FEWEST_TURNS = 8
/** Of names per second, and of CPU time per name, which says more on a busy machine. */
const SLOWEST = 0.95

const row = (...cells: readonly (string | number)[]): void =>
  console.log(cells.map((cell) => String(cell).padStart(11)).join(''))
const mb = (bytes: number): string => (bytes / 1e6).toFixed(1)

function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? 0
}

/** Of what is in use: without a collection before, it is mostly garbage. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc()')
  return process.memoryUsage().heapUsed
}

/** Linear growth makes the last third half as much again as what came before. */
function isFlat(samples: readonly number[]): boolean {
  const third = Math.ceil((samples.length * 2) / 3)
  const [before, after] = [Math.max(...samples.slice(0, third)), Math.max(...samples.slice(third))]
  return after <= before * 1.2 + 4e6
}

async function open(fenceIdleMs: number): Promise<Side> {
  const start = stores.get(which)
  if (start === undefined) throw new Error(`no store ${which}; there are ${[...stores.keys()].join(', ')}`)
  const store = await start()
  onTestFinished(() => store.close().then(() => undefined))
  // ZooKeeper keeps nothing of a free name, so there is nothing to set.
  const config = which === 'zookeeper' ? store.config : { ...store.config, fenceIdleMs }
  const side = await Side.open(store, config)
  onTestFinished(() => side.locks.close())
  return side
}

test(`${which}: what is left of ${names} names`, async ({ signal }) => {
  const [dropping, keeping] = [await open(idleMs), await open(0)]
  const ratios: number[] = []
  const samples: { readonly kept: Kept; readonly client: number }[] = []
  let allowed = 0
  const until = performance.now() + limitMs
  const drop = async (): Promise<Slice> => {
    const slice = await dropping.slice(SLICE_MS, names, signal)
    const late = 1 + (dropping.store.late ?? 0)
    allowed = MOST_LEFT + Math.round(dropping.usedWithin(idleMs + idleMs / PAUSES_PER_IDLE) * late)
    samples.push({ kept: await dropping.store.kept(), client: heapBytes() })
    return slice
  }
  const keep = (): Promise<Slice> => keeping.slice(SLICE_MS, Infinity, signal)

  row('names', 'per second', 'left', 'allowed', 'MB', 'heap MB', '| keeping', 'per second', 'ratio')
  while (dropping.used < names && performance.now() < until && !signal.aborted) {
    // In turn first: neither always follows the other.
    const first = ratios.length % 2 === 0
    const kept = first ? undefined : await keep()
    const dropped = await drop()
    const { perSecond } = kept ?? (await keep())
    ratios.push(dropped.perSecond / perSecond)
    const { kept: now, client } = samples.at(-1) ?? { kept: { names: 0, bytes: 0 }, client: 0 }
    const own = [dropping.used, dropped.perSecond.toFixed(0), now.names, allowed, mb(now.bytes), mb(client)]
    row(...own, `| ${keeping.used}`, perSecond.toFixed(0), (dropped.perSecond / perSecond).toFixed(3))
  }
  if (signal.aborted) return console.log(`${which}: interrupted after ${dropping.used} names`)

  const last = samples.at(-1)?.kept ?? { names: Infinity, bytes: Infinity }
  const everything = await keeping.store.kept()
  console.log(`${which}: ${last.names} of ${dropping.used} names left, ${mb(last.bytes)} MB`)
  console.log(`  allowed: ${allowed}, that is ${MOST_LEFT} and those of the last ${(idleMs * 9) / 8000} s`)
  console.log(
    `  keeping everything: ${everything.names} of ${keeping.used} names, ${mb(everything.bytes)} MB`,
  )
  const [rate, ratio] = [dropping.perSecond.toFixed(0), quantile(ratios, 0.5)]
  const [low, high] = [quantile(ratios, 0.25), quantile(ratios, 0.75)]
  const overall = (dropping.perSecond / keeping.perSecond).toFixed(3)
  console.log(
    `  ${rate} names per second, ${keeping.perSecond.toFixed(0)} when keeping everything: ${overall} over all;`,
  )
  console.log(
    `  ${ratio.toFixed(3)} in the median of ${ratios.length} turns, half of them from ${low.toFixed(2)} to ${high.toFixed(2)}`,
  )
  const [cpu, cpuKeeping] = [await dropping.cpuMicrosPerName(), await keeping.cpuMicrosPerName()]
  const cost = cpu / cpuKeeping
  console.log(
    `  CPU of client and servers per name: ${cpu.toFixed(0)} µs, ${cpuKeeping.toFixed(0)} µs when keeping` +
      ` everything: ${cost.toFixed(3)}`,
  )
  if (idleMs > 0) {
    expect(last.names, 'names left').toBeLessThanOrEqual(allowed)
    await eventually('the last names are dropped', idleMs * 20 + 20_000, async () => {
      await dropping.locks.with('last', () => undefined)
      return (await dropping.store.kept()).names <= MOST_LEFT
    })
    console.log(`  soon after: ${(await dropping.store.kept()).names}`)
  }
  const back = await dropping.comeBack()
  console.log(
    `  ${back.names} names came back, ${back.notHigher.length} of them with a fence that is not higher`,
  )
  expect(back.notHigher).toEqual([])
  if (ratios.length < FEWEST_TURNS) return console.log('  too short to judge the rate, memory and disk')
  if (idleMs > 0) {
    expect(isFlat(samples.map(({ kept }) => kept.bytes)), 'memory or disk of the store is flat').toBe(true)
    expect(isFlat(samples.map(({ client }) => client)), 'the heap of the client is flat').toBe(true)
  }
  expect(high, 'rate beside that of a store that keeps everything').toBeGreaterThanOrEqual(SLOWEST)
  expect(1 / cost, 'names per CPU time beside those of one that keeps everything').toBeGreaterThan(SLOWEST)
})
