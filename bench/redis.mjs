// @locks/redis compared with the plain pair of commands that most programs use, in one run. Run by hand:
// node --expose-gc bench/redis.mjs [redis://host:port]; without a URL it starts a private server.
//
// The plain pair is SET NX PX and a script, called by its hash, that deletes the key if the value is mine, on ioredis
// with default options. Clients of @locks/redis send the commands of one turn of the event loop together, so the pair
// is also measured on ioredis with enableAutoPipelining.
import { createLocks } from '@locks/core'
import { redis } from '@locks/redis'
import { Redis } from 'ioredis'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { freePort } from './lib/free-port.mjs'
import { median, ratios, report } from './lib/measure.mjs'

// Short alternating rounds, so that other load on the machine affects both.
const ROUNDS = 25
const WARM_UP = 8
const CYCLES = 3_200
const NAMES = 64
const DELETE_IF_MINE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

const given = process.argv.slice(2).find((word) => word.startsWith('redis:'))
const server = given === undefined ? await startServer() : undefined
const url = given ?? server?.url ?? ''

const locks = createLocks(redis({ url }))
const plain = new Redis(url)
const pipelined = new Redis(url, { enableAutoPipelining: true })
const sha = String(await plain.script('LOAD', DELETE_IF_MINE))

/** @param {string} name @param {number} cycles */
async function ourCycles(name, cycles) {
  const lock = locks.lock(name)
  for (let n = 0; n < cycles; n += 1) await (await lock.acquire()).release()
}

/** @param {Redis} client */
const pairs = (client) => {
  /** @param {string} name @param {number} cycles */
  return async (name, cycles) => {
    for (let n = 0; n < cycles; n += 1) {
      const value = randomUUID()
      if ((await client.set(name, value, 'PX', 30_000, 'NX')) !== 'OK') throw new Error('held')
      await client.evalsha(sha, 1, name, value)
    }
  }
}

/** @param {(name: string, cycles: number) => Promise<void>} cycles */
const sequentially = (cycles) => () => cycles('bench:one', CYCLES)

/** @param {(name: string, cycles: number) => Promise<void>} cycles */
const concurrently = (cycles) => async () => {
  await Promise.all(Array.from({ length: NAMES }, (_, n) => cycles(`bench:${n}`, CYCLES / NAMES)))
}

const kinds = [
  { what: 'sequential', spread: sequentially },
  { what: `${NAMES} names at once`, spread: concurrently },
]
const rows = []
for (const { what, spread } of kinds) {
  const ours = spread(ourCycles)
  const theirs = spread(pairs(plain))
  // A new process is slow at first, and slower with more code.
  await ratios(WARM_UP, CYCLES, ours, theirs)
  const toPlain = await ratios(ROUNDS, CYCLES, ours, theirs)
  const toPipelined = await ratios(ROUNDS, CYCLES, ours, spread(pairs(pipelined)))
  const perSecond = { ours: median(toPlain.ours), theirs: median(toPlain.theirs) }
  rows.push({ what: `${what}: cycles/s`, ...perSecond })
  rows.push({ what: `${what}: of the plain pair`, ours: toPlain.ratio, atLeast: 0.85 })
  rows.push({ what: `${what}: of the pipelined pair`, ours: toPipelined.ratio })
  const [mine, plains] = [await processorTime(ours), await processorTime(theirs)]
  rows.push({ what: `${what}: µs of CPU in this process`, ours: mine.here, theirs: plains.here })
  rows.push({ what: `${what}: µs of CPU in Redis`, ours: mine.there, theirs: plains.there })
}
await locks.close()
plain.disconnect()
pipelined.disconnect()
server?.stop()

report('redis, uncontended and fenced, compared with SET NX PX and compare-and-delete', rows)

/**
 * Processor time per cycle, in this process and in the server: on a busy machine it says more than a rate.
 * The lowest of several rounds.
 * @param {() => Promise<void>} run
 */
async function processorTime(run) {
  const best = { here: Infinity, there: Infinity }
  for (let round = 0; round < 9; round += 1) {
    const [usage, before] = [process.cpuUsage(), await serverMicros()]
    await run()
    const { user, system } = process.cpuUsage(usage)
    best.here = Math.min(best.here, (user + system) / CYCLES)
    best.there = Math.min(best.there, ((await serverMicros()) - before) / CYCLES)
  }
  return best
}

async function serverMicros() {
  const info = await plain.info('cpu')
  const seconds = [...info.matchAll(/^used_cpu_(?:sys|user):(.*?)\r?$/gm)].map((match) => Number(match[1]))
  return seconds.reduce((sum, one) => sum + one, 0) * 1e6
}

async function startServer() {
  const port = await freePort()
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  const child = spawn('redis-server', options, { stdio: ['ignore', 'pipe', 'inherit'] })
  for await (const text of child.stdout) if (String(text).includes('Ready to accept connections')) break
  child.stdout.resume()
  return { url: `redis://127.0.0.1:${port}`, stop: () => child.kill() }
}
