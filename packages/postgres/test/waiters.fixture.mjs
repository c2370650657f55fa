// Clients of one process that contend for one lock. The parent says when to begin and when to end.
import { createLocks } from '@locks/core'
import { postgres } from '@locks/postgres'

const [url = '', clients = '1', cycles = '1', lock = ''] = process.argv.slice(2)
// Opening many connections at once takes a while on a busy machine.
const options = { storeTimeoutMs: 60_000 }
const all = Array.from({ length: Number(clients) }, () =>
  createLocks(postgres({ url, poolSize: 1 }), options),
)
/** @type {Promise<void>[]} */
const work = []

/** @param {string} message */
async function told(message) {
  if (message === 'wait') {
    // All of them are in the queue of the store before the parent gets its answer.
    for (const locks of all) {
      const waits = new Promise((resolve) => locks.on('contended', resolve))
      work.push(cycle(locks))
      await waits
    }
  } else {
    await Promise.all(work)
    await Promise.all(all.map((locks) => locks.close()))
  }
  process.send?.(message)
  if (message !== 'wait') process.disconnect()
}

/** @param {import('@locks/core').Locks} locks */
async function cycle(locks) {
  for (let n = 0; n < Number(cycles); n += 1) {
    const lease = await locks.lock(lock).acquire({ waitMs: 240_000 })
    await lease.release()
  }
}

process.on('message', (message) => void told(String(message)))
