import { isLockError, openLocks } from '@locks/core'
import { setTimeout as pass } from 'node:timers/promises'

// A program that knows nothing of the store it runs on: what LOCKS_URL or its argument names, and no more.
const [, , json] = process.argv
/** @type {import('@locks/core').LocksConfig | undefined} */
const config = json === undefined ? undefined : JSON.parse(json)
const open = () => openLocks(config, { waitMs: 60_000, storeTimeoutMs: 30_000 })
const [one, two] = await Promise.all([open(), open()])

const name = 'swap:order 42/é'
const first = await one.lock(name).acquire({ ttlMs: 30_000 })
const refused = (await two.lock(name).tryAcquire()) === null
const timedOut = await two
  .lock(name)
  .acquire({ waitMs: 0 })
  .catch((/** @type {unknown} */ error) => isLockError(error, 'LOCK_TIMEOUT'))
const waiting = two.lock(name).acquire()
await first.release()
const second = await waiting
second.assertHeld()
const rising = second.fence > first.fence
const { held, holder } = await one.inspect(name)
const seen = held && holder?.fence === second.fence
await second.release()
const free = !(await one.inspect(name)).held
const result = await one.with(name, async (lease) => lease.state)
// Broken by the other client, as an operator would. A store that cannot do that says so.
const broken = one.capabilities.break ? 'LOCK_LOST' : 'LOCK_UNSUPPORTED'
const lost = await one
  .with(name, { ttlMs: 3_000 }, async (lease) => {
    await two.lock(name).break()
    while (!lease.signal.aborted) await pass(20)
  })
  .catch((/** @type {unknown} */ error) => isLockError(error, broken))
await Promise.all([one.close(), two.close()])
console.log(JSON.stringify({ refused, timedOut, rising, seen, free, result, lost }))
