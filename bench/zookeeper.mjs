// @locks/zookeeper compared with a bare create and delete of a node by the same client, in one run. Run by hand:
// node bench/zookeeper.mjs [zookeeper://host:port]; without a URL it starts a private server.
import { createLocks } from '@locks/core'
import { zookeeper } from '@locks/zookeeper'
import { ACL, createClient, CreateMode } from 'node-zookeeper-client'
import { median, ratios, report } from './lib/measure.mjs'
import { startZooKeeper } from './lib/zookeeper-server.mjs'

const ROUNDS = 9
const CYCLES = 500
const NAMES = 32

const given = process.argv.slice(2).find((word) => word.startsWith('zookeeper:'))
const server = given === undefined ? await startZooKeeper() : undefined
const url = given ?? server?.url ?? ''

const locks = createLocks(zookeeper({ url }))
const plain = createClient(url.replace('zookeeper://', ''), { sessionTimeout: 30_000, spinDelay: 100 })
await new Promise((resolve) => {
  plain.once('connected', () => resolve(undefined))
  plain.connect()
})

/** @param {string} path @param {number} mode @returns {Promise<string>} */
function create(path, mode) {
  return new Promise((resolve, reject) => {
    const done = (/** @type {Error | null} */ error, /** @type {string} */ made) =>
      error ? reject(error) : resolve(made)
    plain.create(path, Buffer.from('{"owner":"bench"}'), ACL.OPEN_ACL_UNSAFE, mode, done)
  })
}

/** @param {string} path @returns {Promise<void>} */
function remove(path) {
  return new Promise((resolve, reject) =>
    plain.remove(path, -1, (error) => (error ? reject(error) : resolve())),
  )
}

/** @param {string} name @param {number} cycles */
async function ourCycles(name, cycles) {
  const lock = locks.lock(name)
  for (let n = 0; n < cycles; n += 1) await (await lock.acquire()).release()
}

/** @param {string} name @param {number} cycles */
async function plainCycles(name, cycles) {
  for (let n = 0; n < cycles; n += 1) await remove(await create(`/${name}`, CreateMode.EPHEMERAL_SEQUENTIAL))
}

/** @param {(name: string, cycles: number) => Promise<void>} cycles */
const concurrently = (cycles) => async () => {
  await Promise.all(
    Array.from({ length: NAMES }, (_, n) => cycles(`bench-${n}`, Math.ceil((CYCLES * 4) / NAMES))),
  )
}

/** A new name for each cycle, which costs a directory each. */
let fresh = 0
async function ourFreshCycles() {
  for (let n = 0; n < CYCLES; n += 1) await (await locks.lock(`bench-fresh-${fresh++}`).acquire()).release()
}

const single = await ratios(
  ROUNDS,
  CYCLES,
  () => ourCycles('bench', CYCLES),
  () => plainCycles('bench', CYCLES),
)
const many = await ratios(ROUNDS, CYCLES * 4, concurrently(ourCycles), concurrently(plainCycles))
const named = await ratios(3, CYCLES, ourFreshCycles, () => plainCycles('bench', CYCLES))

await locks.close()
plain.close()
server?.stop()

report('zookeeper, compared with create and delete of a node', [
  { what: 'uncontended cycles/s', ours: median(single.ours), theirs: median(single.theirs) },
  { what: 'uncontended, ratio', ours: single.ratio, atLeast: 0.6 },
  { what: `cycles/s, ${NAMES} names at a time`, ours: median(many.ours), theirs: median(many.theirs) },
  { what: `${NAMES} names at a time, ratio`, ours: many.ratio },
  { what: 'cycles/s, a new name each', ours: median(named.ours), theirs: median(named.theirs) },
  { what: 'a new name each, ratio', ours: named.ratio },
])
