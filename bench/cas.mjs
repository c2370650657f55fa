// Counts the store operations of @locks/cas, and how they grow with the number of waiters. Run by hand:
//   node bench/cas.mjs                                  memory and file
//   LOCKS_TEST_REDIS_URL=redis://… node bench/cas.mjs   and redis
import { cas, fileStore, memoryStore, redisStore } from '@locks/cas'
import { createLocks } from '@locks/core'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { report } from './lib/measure.mjs'

const CYCLES = 300
const HAND_OFFS = 100
const HOLD_MS = 5

/** @typedef {{ get: number, put: number }} Asked */

/**
 * Counts what all clients ask of one store.
 * @param {import('@locks/cas').StoreFactory} open
 * @returns {{ open: import('@locks/cas').StoreFactory, asked: Asked }}
 */
function counted(open) {
  const asked = { get: 0, put: 0 }
  return {
    asked,
    open: () => {
      const store = open()
      return {
        ...store,
        get: (key) => ((asked.get += 1), store.get(key)),
        put: (...args) => ((asked.put += 1), store.put(...args)),
      }
    },
  }
}

/** @param {import('@locks/cas').StoreFactory} open */
async function uncontended(open) {
  const store = counted(open)
  const total = () => store.asked.get + store.asked.put
  const name = `bench-${process.pid}-${Math.random()}`
  const [first, second] = [createLocks(cas(store.open)), createLocks(cas(store.open))]
  await first.with(name, () => undefined)
  const fresh = total()
  await second.with(name, () => undefined)
  const cold = total() - fresh
  const start = performance.now()
  for (let n = 0; n < CYCLES; n += 1) await second.with(name, () => undefined)
  const perSecond = (CYCLES / (performance.now() - start)) * 1_000
  const warm = (total() - fresh - cold) / CYCLES
  await Promise.all([first.close(), second.close()])
  return { fresh, cold, warm, perSecond }
}

/**
 * Clients that all want one lock and hold it for a moment. Each asks again once it was served, so that as many wait all the time.
 * @param {import('@locks/cas').StoreFactory} open
 * @param {number} waiters
 */
async function contended(open, waiters) {
  const store = counted(open)
  const name = `bench-${process.pid}-${Math.random()}`
  // No shared observations: each client as if in its own process.
  const clients = Array.from({ length: waiters }, () => createLocks(cas(store.open), { waitMs: 120_000 }))
  /** @type {Asked} */
  let before = { get: 0, put: 0 }
  let [served, handedOver, last, start] = [-waiters, 0, -1, 0]
  await Promise.all(
    clients.map(async (client, n) => {
      while (served < HAND_OFFS)
        await client.with(name, async () => {
          if (++served === 1) {
            before = { ...store.asked }
            start = performance.now()
          }
          if (last !== n) handedOver += 1
          last = n
          await new Promise((resolve) => setTimeout(resolve, HOLD_MS))
        })
    }),
  )
  const seconds = (performance.now() - start) / 1_000
  const asked = store.asked.get + store.asked.put - before.get - before.put
  await Promise.all(clients.map((client) => client.close()))
  return { perHold: asked / served, holdsPerSecond: served / seconds, share: handedOver / (served + waiters) }
}

const directory = await mkdtemp(join(tmpdir(), 'locks-bench-'))
const url = process.env['LOCKS_TEST_REDIS_URL']
/** @type {[string, import('@locks/cas').StoreFactory][]} */
const stores = [
  ['memory', memoryStore()],
  ['file', fileStore({ directory })],
]
if (url !== undefined) stores.push(['redis', redisStore({ url })])

for (const [name, open] of stores) {
  const { fresh, cold, warm, perSecond } = await uncontended(open)
  const rows = [
    { what: 'operations of a cycle, new name', ours: fresh, atMost: 3 },
    { what: 'operations of a cycle, never seen by this client', ours: cold, atMost: 3 },
    { what: 'operations of a cycle, warm', ours: warm, atMost: 2 },
    { what: 'cycles per second, warm', ours: perSecond },
  ]
  for (const waiters of [1, 10, 100]) {
    const { perHold, holdsPerSecond, share } = await contended(open, waiters)
    rows.push({ what: `operations per hold, ${waiters} clients`, ours: perHold })
    rows.push({ what: `holds per second of ${HOLD_MS} ms, ${waiters} clients`, ours: holdsPerSecond })
    rows.push({ what: `share of holds that changed client, ${waiters}`, ours: share })
  }
  report(`@locks/cas on ${name}`, rows)
}
await rm(directory, { recursive: true, force: true })
