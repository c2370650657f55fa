// @locks/redis next to the plain pair of commands that most programs use, in one run. Run by hand:
// node --expose-gc bench/redis.mjs [redis://host:port]; without a URL it starts a server of its own.
import { createLocks } from '@locks/core'
import { redis } from '@locks/redis'
import { Redis } from 'ioredis'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:net'
import { median, ratios, report } from './lib/measure.mjs'

const ROUNDS = 9
const CYCLES = 4_000
const NAMES = 64
const DELETE_IF_MINE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

const given = process.argv.slice(2).find((word) => word.startsWith('redis:'))
const server = given === undefined ? await startServer() : undefined
const url = given ?? server?.url ?? ''

const locks = createLocks(redis({ url }))
const plain = new Redis(url)
const sha = String(await plain.script('LOAD', DELETE_IF_MINE))

/** @param {string} name @param {number} cycles */
async function ourCycles(name, cycles) {
  const lock = locks.lock(name)
  for (let n = 0; n < cycles; n += 1) await (await lock.acquire()).release()
}

/** @param {string} name @param {number} cycles */
async function plainCycles(name, cycles) {
  for (let n = 0; n < cycles; n += 1) {
    const value = randomUUID()
    if ((await plain.set(name, value, 'PX', 30_000, 'NX')) !== 'OK') throw new Error('held')
    await plain.evalsha(sha, 1, name, value)
  }
}

/** @param {(name: string, cycles: number) => Promise<void>} cycles */
const concurrently = (cycles) => async () => {
  await Promise.all(Array.from({ length: NAMES }, (_, n) => cycles(`bench:${n}`, CYCLES / NAMES)))
}

const sequential = await ratios(
  ROUNDS,
  CYCLES,
  () => ourCycles('bench', CYCLES),
  () => plainCycles('bench:plain', CYCLES),
)
const concurrent = await ratios(ROUNDS, CYCLES, concurrently(ourCycles), concurrently(plainCycles))
await locks.close()
plain.disconnect()
server?.stop()

report('redis, uncontended, beside SET NX PX and compare-and-delete', [
  { what: 'sequential cycles/s', ours: median(sequential.ours), theirs: median(sequential.theirs) },
  { what: 'sequential, ratio to the plain pair', ours: sequential.ratio, atLeast: 0.85 },
  { what: `cycles/s over ${NAMES} names`, ours: median(concurrent.ours), theirs: median(concurrent.theirs) },
  { what: `${NAMES} names, ratio to the plain pair`, ours: concurrent.ratio, atLeast: 0.85 },
])

async function startServer() {
  const port = await new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => resolve(typeof address === 'object' ? address?.port : undefined))
    })
  })
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  const child = spawn('redis-server', options, { stdio: 'ignore' })
  return { url: `redis://127.0.0.1:${port}`, stop: () => child.kill() }
}
