import { cas, fileStore } from '@locks/cas'
import { createLocks } from '@locks/core'
import { memory } from '@locks/memory'
import { redis } from '@locks/redis'

// Choose by what must be excluded: tasks of one process, processes of one host, or many hosts.
const { REDIS_URL: url, LOCK_DIRECTORY: directory } = process.env
/** @type {import('@locks/core').AdapterFactory} */
const adapter = url ? redis({ url }) : directory ? cas(fileStore({ directory })) : memory()

const locks = createLocks(adapter, { ttlMs: 30_000 })
const { scope, fencing, wait } = locks.capabilities
console.log(`scope ${scope}, fences ${fencing}, waiters by ${wait}`)

let stock = 10
async function sell() {
  await locks.with('stock', async (lease) => {
    const left = stock
    await new Promise((resolve) => setImmediate(resolve)) // without the lock, another task could write here
    lease.assertHeld()
    stock = left - 1
  })
}

await Promise.all(Array.from({ length: 10 }, sell))
console.log(`${stock} left`)
await locks.close()
