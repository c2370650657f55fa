import { eventually } from '@locks/core/conformance'
import { loadavg } from 'node:os'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test } from 'vitest'
import { cpuMsOf, machineCpuMs } from './cpu.ts'
import { Side } from './side.ts'
import type { Spent } from './side.ts'
import { isFlat, medianOf } from './statistics.ts'
import type { Median } from './statistics.ts'
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
  LOCKS_LEFTOVERS_BEFORE: earlier,
} = process.env
const [names, idleMs, limitMs] = [Number(many), Number(idle), Number(minutes) * 60_000]

/** Beside the names of the last idle time, and of the pause between two looks for idle names. */
const MOST_LEFT = 1_000
const WINDOW_MS = idleMs + idleMs / 8
/** So long after the last name a store may take to drop what is idle: Redis looks for expired keys now and then. */
const SETTLE_MS = 10_000
/** Short: whatever else the machine does should fall into the turns of both. */
const TURN_MS = 1_000
const TURNS_PER_ROUND = 10
/** So many rounds can be judged; after the most, only the side that drops names goes on. */
const FEWEST_ROUNDS = 3
const MOST_ROUNDS = 8
/** Of names per second, and of names per CPU time. */
const SLOWEST = 0.95

const row = (...cells: readonly (string | number)[]): void =>
  console.log(cells.map((cell) => String(cell).padStart(11)).join(''))
const mb = (bytes: number): string => (bytes / 1e6).toFixed(1)

const shown = ({ median, low, high }: Median): string =>
  `${median.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)})`

interface Sample {
  readonly kept: Kept
  /** How many names of the last `WINDOW_MS` there are. */
  readonly recent: number
  /** Of the heap of the client. */
  readonly heap: number
}

function besideOf(round: Round | undefined): readonly string[] {
  if (round === undefined) return ['|', '', '', '']
  const { own, keeping, rates, cpu, cpuKeeping } = round
  const [mine, other, ratio] = [own, keeping, rates].map((values) => medianOf(values).median)
  const cost = (sum(cpu) / sum(cpuKeeping)).toFixed(3)
  return [`| ${mine?.toFixed(0)}`, other?.toFixed(0) ?? '', ratio?.toFixed(3) ?? '', cost]
}

/** Of what is in use: without a collection before, it is mostly garbage. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc()')
  return process.memoryUsage().heapUsed
}

async function open(fenceIdleMs: number, before?: string): Promise<Side> {
  const start = stores.get(which)
  if (start === undefined) throw new Error(`no store ${which}; there are ${[...stores.keys()].join(', ')}`)
  const store = await start(before)
  onTestFinished(() => store.close().then(() => undefined))
  // ZooKeeper keeps nothing of a free name, and earlier versions kept everything: there is nothing to set.
  const fixed = which === 'zookeeper' || before !== undefined
  const side = await Side.open(store, fixed ? store.config : { ...store.config, fenceIdleMs }, before)
  onTestFinished(() => side.locks.close())
  return side
}

async function sampleOf(side: Side): Promise<Sample> {
  return { recent: side.usedWithin(WINDOW_MS), kept: await side.store.kept(), heap: heapBytes() }
}

interface Round {
  /** Names per second, and beside those of the side that keeps everything, turn by turn. */
  readonly own: readonly number[]
  readonly keeping: readonly number[]
  readonly rates: readonly number[]
  /** CPU time per name in µs. */
  readonly cpu: Cpu
  readonly cpuKeeping: Cpu
}

interface Cpu {
  readonly client: number
  readonly servers: number
}

const sum = ({ client, servers }: Cpu): number => client + servers

function cpuOf(before: Spent, after: Spent): Cpu {
  const used = after.names - before.names
  return {
    client: ((after.clientMs - before.clientMs) / used) * 1_000,
    servers: ((after.serversMs - before.serversMs) / used) * 1_000,
  }
}

/** Each turn of the side that keeps everything is compared with the turns before and after it. */
async function compare(dropping: Side, keeping: Side, signal: AbortSignal): Promise<Round> {
  // Does not count: after the collection of the last sample the code of both begins slowly.
  await keeping.turn(TURN_MS, Infinity, signal)
  const [before, beforeKeeping] = [await dropping.spent(), await keeping.spent()]
  const [own, kept, rates]: [number[], number[], number[]] = [[], [], []]
  own.push(await dropping.turn(TURN_MS, names, signal))
  while (kept.length < TURNS_PER_ROUND && dropping.used < names && !signal.aborted) {
    const beside = await keeping.turn(TURN_MS, Infinity, signal)
    const after = await dropping.turn(TURN_MS, names, signal)
    // The last turn is cut short.
    if (dropping.used < names) rates.push(((own.at(-1) ?? NaN) + after) / 2 / beside)
    own.push(after)
    kept.push(beside)
  }
  const cpu = cpuOf(before, await dropping.spent())
  return { own, keeping: kept, rates, cpu, cpuKeeping: cpuOf(beforeKeeping, await keeping.spent()) }
}

test(`${which}: what is left of ${names} names`, async ({ signal }) => {
  const [dropping, keeping] = [await open(idleMs), await open(0, earlier)]
  const [rounds, samples, loads]: [Round[], Sample[], number[]] = [[], [], []]
  const [since, machineBefore] = [performance.now(), await machineCpuMs()]
  const ourCpuMs = async (): Promise<number> => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1_000 + (await cpuMsOf([...dropping.store.pids, ...keeping.store.pids]))
  }
  const oursBefore = await ourCpuMs()

  row('names', 'left', 'recent', 'MB', 'heap MB', '| per second', 'keeping', 'rate', 'CPU', '| load')
  while (dropping.used < names && performance.now() - since < limitMs && !signal.aborted) {
    const round = rounds.length < MOST_ROUNDS ? await compare(dropping, keeping, signal) : undefined
    if (round === undefined) await dropping.turn(TURN_MS * TURNS_PER_ROUND, names, signal)
    // The last one may end before anything is compared.
    else if (round.rates.length > 0) rounds.push(round)
    const sample = await sampleOf(dropping)
    samples.push(sample)
    loads.push(loadavg()[0] ?? NaN)
    const own = [dropping.used, sample.kept.names, sample.recent, mb(sample.kept.bytes), mb(sample.heap)]
    row(...own, ...besideOf(round), `| ${loads.at(-1)?.toFixed(1)}`)
  }
  if (signal.aborted) return console.log(`${which}: interrupted after ${dropping.used} names`)

  const [spentMs, ours] = [performance.now() - since, (await ourCpuMs()) - oursBefore]
  const others = ((await machineCpuMs()) - machineBefore - ours) / spentMs
  const last = samples.at(-1)
  if (last === undefined) throw new Error('not one round')
  const everything = await keeping.store.kept()
  console.log(`${which}: ${last.kept.names} of ${dropping.used} names left`)
  console.log(`  ${last.recent} of them were used within the last ${WINDOW_MS / 1_000} s`)
  console.log(`  ${mb(last.kept.bytes)} MB in the store, ${mb(last.heap)} MB of heap in the client`)
  console.log(
    `  keeping everything: ${everything.names} of ${keeping.used} names, ${mb(everything.bytes)} MB`,
  )
  const rate = medianOf(rounds.flatMap(({ rates }) => rates))
  const cost = medianOf(rounds.map(({ cpu, cpuKeeping }) => sum(cpu) / sum(cpuKeeping)))
  const figures = (...of: readonly ((round: Round) => readonly number[])[]): string =>
    of.map((figure) => medianOf(rounds.flatMap(figure)).median.toFixed(0)).join(' against ')
  console.log(
    `  names per second: ${figures(
      ({ own }) => own,
      (round) => round.keeping,
    )}, ratio ${shown(rate)}`,
  )
  const clients = figures(
    ({ cpu }) => [cpu.client],
    ({ cpuKeeping }) => [cpuKeeping.client],
  )
  const servers = figures(
    ({ cpu }) => [cpu.servers],
    ({ cpuKeeping }) => [cpuKeeping.servers],
  )
  console.log(`  CPU per name in µs: client ${clients}, servers ${servers}, ratio ${shown(cost)}`)
  console.log(
    `  (medians over ${rounds.length} rounds; in brackets where they are with a confidence of 95 %)`,
  )
  const load = (loads.reduce((a, b) => a + b, 0) / loads.length).toFixed(1)
  console.log(
    `  ${(spentMs / 60_000).toFixed(1)} minutes, load ${load}; others kept ${others.toFixed(2)} cores busy`,
  )

  const soft = expect.soft
  if (idleMs > 0) {
    const ended = performance.now()
    await eventually('what is idle is dropped', SETTLE_MS + WINDOW_MS, async () => {
      await dropping.locks.with('last', () => undefined)
      return (await dropping.store.kept()).names < MOST_LEFT + dropping.usedWithin(WINDOW_MS)
    })
    const [left, recent] = [(await dropping.store.kept()).names, dropping.usedWithin(WINDOW_MS)]
    const after = ((performance.now() - ended) / 1_000).toFixed(1)
    console.log(`  ${left} left ${after} s later, ${recent} of them recent`)
  }
  const back = await dropping.comeBack()
  console.log(`  ${back.names} names came back, ${back.notHigher.length} with a fence that is not higher`)
  soft(back.notHigher).toEqual([])
  if (rounds.length < FEWEST_ROUNDS) return console.log('  too short to judge the rate, memory and disk')
  if (idleMs > 0) {
    soft(isFlat(samples.map(({ kept }) => kept.bytes)), 'memory or disk of the store is flat').toBe(true)
    soft(isFlat(samples.map(({ heap }) => heap)), 'the heap of the client is flat').toBe(true)
  }
  soft(rate.median, 'rate beside that of a store that keeps everything').toBeGreaterThanOrEqual(SLOWEST)
  soft(
    1 / cost.median,
    'names per CPU time beside those of one that keeps everything',
  ).toBeGreaterThanOrEqual(SLOWEST)
})
