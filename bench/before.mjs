// This version compared with an earlier one that is built in another folder, in one run. Run by hand:
//
//   node bench/before.mjs ../earlier memory: redis://127.0.0.1:6379 postgres://me@127.0.0.1/now,postgres://me@127.0.0.1/then
//
// Both versions use the same URL, or each its own of two that are separated by a comma: tables of an earlier version
// may differ. They take turns, and each turn is compared with the turn beside it, so that other load affects both.
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const TURN_MS = 150
const WARM_UP = 12
/** Two turns each, in the order now, before, before, now. */
const ROUNDS = 60
const NAMES = 64
const TASKS = 50

const [folder, ...stores] = process.argv.slice(2)
if (folder === undefined || stores.length === 0) throw new Error('usage: bench/before.mjs FOLDER URL...')
/** Of this version, and of the earlier one. */
const [here, there] = [resolve(import.meta.dirname, '..'), resolve(folder)]

/** @typedef {{ locks: import('@locks/core').Locks, prefix: string }} Side */

/**
 * @param {string} root of a repository that is built
 * @param {string} url
 * @returns {Promise<Side>}
 */
async function open(root, url) {
  /** @type {typeof import('@locks/core')} */
  const { openLocks } = await import(pathToFileURL(join(root, 'packages/core/dist/index.js')).href)
  // Adapters are looked up from the working directory.
  process.chdir(join(root, 'bench'))
  return { locks: await openLocks(url), prefix: `bench:${process.pid}:${root}` }
}

/** @type {Record<string, (side: Side, until: number) => Promise<number>>} */
const work = {
  'one at a time': (side, until) => cycles(side, 'one', until),
  [`${NAMES} names at once`]: (side, until) => together(NAMES, (n) => cycles(side, `of many:${n}`, until)),
  [`${TASKS} tasks on one name`]: (side, until) => together(TASKS, () => cycles(side, 'shared', until)),
}

/** @param {Side} side @param {string} name @param {number} until */
async function cycles({ locks, prefix }, name, until) {
  let done = 0
  for (; performance.now() < until; done += 1) await locks.with(`${prefix}:${name}`, () => undefined)
  return done
}

/** @param {number} many @param {(n: number) => Promise<number>} run */
async function together(many, run) {
  const counts = await Promise.all(Array.from({ length: many }, (_, n) => run(n)))
  return counts.reduce((sum, one) => sum + one, 0)
}

/**
 * One turn: cycles per second, and CPU time of this process per cycle in µs.
 * @param {(until: number) => Promise<number>} run
 */
async function turn(run) {
  const [start, usage] = [performance.now(), process.cpuUsage()]
  const done = await run(start + TURN_MS)
  const { user, system } = process.cpuUsage(usage)
  return { perSecond: (done / (performance.now() - start)) * 1_000, micros: (user + system) / done }
}

/**
 * The median, and the ranks between which the true one is in 95 of 100 cases.
 * @param {readonly number[]} values
 */
function medianOf(values) {
  const sorted = values.toSorted((a, b) => a - b)
  const spread = 0.98 * Math.sqrt(sorted.length)
  const at = (/** @type {number} */ rank) => (sorted[Math.round(rank)] ?? NaN).toFixed(3)
  const middle = (sorted.length - 1) / 2
  return `${at(middle)} (${at(middle - spread)} to ${at(middle + spread)})`
}

for (const store of stores) {
  const [url = '', earlier = url] = store.split(',')
  const [now, before] = [await open(here, url), await open(there, earlier)]
  console.log(`\n${new URL(url).protocol} this version divided by the earlier one`)
  for (const [what, run] of Object.entries(work)) {
    /** @type {[number[], number[]]} */
    const [rates, costs] = [[], []]
    /** @type {number[]} */
    const perSecond = []
    const ours = () => turn((until) => run(now, until))
    const theirs = () => turn((until) => run(before, until))
    for (let round = -WARM_UP; round < ROUNDS; round += 1) {
      const [a, b, c, d] = [await ours(), await theirs(), await theirs(), await ours()]
      if (round < 0) continue
      perSecond.push(a.perSecond)
      rates.push(a.perSecond / b.perSecond, d.perSecond / c.perSecond)
      costs.push(a.micros / b.micros, d.micros / c.micros)
    }
    const speed = Math.round(perSecond.toSorted((a, b) => a - b)[ROUNDS >> 1] ?? NaN)
    console.log(
      `  ${what.padEnd(24)} ${String(speed).padStart(7)}/s   rate ${medianOf(rates)}   CPU ${medianOf(costs)}`,
    )
  }
  await Promise.all([now.locks.close(), before.locks.close()])
}
