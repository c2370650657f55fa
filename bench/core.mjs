// Core over the memory adapter, compared with async-mutex in the same run. Run with `pnpm bench`.
import { Mutex } from 'async-mutex'
import { createLocks } from '@locks/core'
import { systemClock } from '@locks/core/adapter'
import { memory } from '@locks/memory'
import { heapOf, median, ratios, report } from './lib/measure.mjs'

const ROUNDS = 7
const CYCLES = 40_000
const TASKS = 50
const LEASES = 10_000

/** Timers that are armed. @type {Set<object>} */
const timers = new Set()
/** @type {import('@locks/core').Clock} */
const clock = {
  ...systemClock,
  timer(delayMs, fire) {
    const over = () => timers.delete(timer)
    const timer = systemClock.timer(delayMs, () => {
      over()
      fire()
    })
    timers.add(timer)
    return {
      ...timer,
      cancel() {
        over()
        timer.cancel()
      },
    }
  },
}

const locks = createLocks(memory(), { clock })
const lock = locks.lock('bench')
const mutex = new Mutex()

/** @param {number} cycles */
async function ourCycles(cycles) {
  for (let n = 0; n < cycles; n += 1) await (await lock.acquire()).release()
}

/** @param {number} cycles */
async function theirCycles(cycles) {
  for (let n = 0; n < cycles; n += 1) (await mutex.acquire())()
}

/** @param {(cycles: number) => Promise<void>} cycles */
const contended = (cycles) => async () => {
  await Promise.all(Array.from({ length: TASKS }, () => cycles(CYCLES / TASKS)))
}

const uncontended = await ratios(
  ROUNDS,
  CYCLES,
  () => ourCycles(CYCLES),
  () => theirCycles(CYCLES),
)
const busy = await ratios(ROUNDS, CYCLES, contended(ourCycles), contended(theirCycles))

/** @type {import('@locks/core').Lease[]} */
const held = []
const heldBytes = await heapOf(LEASES, async () => {
  for (let n = 0; n < LEASES; n += 1) held.push(await locks.lock(`held:${n}`).acquire())
})
const heldTimers = timers.size

/** @type {Promise<unknown>[]} */
const waiting = []
const blocker = await lock.acquire()
const waitingBytes = await heapOf(LEASES, async () => {
  for (let n = 0; n < LEASES; n += 1) waiting.push(lock.with({ waitMs: 600_000 }, () => undefined))
})
await blocker.release()
await Promise.all([...waiting, ...held.map((lease) => lease.release())])
await locks.close()

report('core over memory', [
  { what: 'uncontended cycles/s', ours: median(uncontended.ours), theirs: median(uncontended.theirs) },
  { what: 'uncontended, ratio to async-mutex', ours: uncontended.ratio, atLeast: 0.3 },
  { what: `${TASKS}-task contended cycles/s`, ours: median(busy.ours), theirs: median(busy.theirs) },
  { what: `${TASKS}-task contended, ratio to async-mutex`, ours: busy.ratio },
  { what: 'heap bytes per held lease', ours: heldBytes, atMost: 2048 },
  { what: 'heap bytes per waiting acquire', ours: waitingBytes },
  { what: `timers for ${LEASES} held leases`, ours: heldTimers, atMost: 1 },
])
