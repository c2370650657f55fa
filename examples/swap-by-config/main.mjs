import { openLocks } from '@locks/core'
import { mkdir, readFile, writeFile } from 'node:fs/promises'

// No adapter is imported here: only the one that the configuration names is loaded.
const { LOCKS_URL: url, LOCKS_STORE: store } = process.env
const options = { waitMs: 60_000, ...(store && { store }) }
const locks = await openLocks(url ?? (await config()), options)

const visits = Number(process.argv[2] ?? 10)
for (let n = 0; n < visits; n += 1) {
  await locks.with('visits', async (lease) => {
    const count = Number(await readFile('visits.txt', 'utf8').catch(() => '0'))
    lease.assertHeld()
    await writeFile('visits.txt', String(count + 1))
  })
}
console.log(`counted ${visits} visits under locks of scope ${locks.capabilities.scope}`)
await locks.close()

/** @returns {Promise<import('@locks/core').LocksConfig>} */
async function config() {
  await mkdir('locks', { recursive: true }) // for the store "development"
  return JSON.parse(await readFile(new URL('locks.json', import.meta.url), 'utf8'))
}
