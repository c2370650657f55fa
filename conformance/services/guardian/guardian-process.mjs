// Runs beside a test run and outlives it. Plain JavaScript, because Node 20 cannot run TypeScript.
// Each line of stdin adds or drops a charge; when stdin ends, the run is over, however it ended.
import { rm } from 'node:fs/promises'
import { request } from 'node:http'
import { createInterface } from 'node:readline'
import { isAlive, killTree } from './process-tree.mjs'

/**
 * @typedef {{ pid: number } | { path: string } | { container: string, socketPath: string }} Charge
 * @typedef {{ add: Charge } | { drop: Charge }} Line
 */

for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.on(signal, () => undefined) // the end of stdin decides, not what the terminal sends to the whole group
}

/** @type {Map<string, Charge>} */
const charges = new Map()

createInterface({ input: process.stdin })
  .on('line', (text) => {
    /** @type {Line} */
    const line = JSON.parse(text)
    if ('add' in line) charges.set(JSON.stringify(line.add), line.add)
    else charges.delete(JSON.stringify(line.drop))
  })
  .once('close', () => void cleanUp())

async function cleanUp() {
  const left = [...charges.values()]
  const killed = left.flatMap((charge) => ('pid' in charge ? killTree(charge.pid) : []))
  await Promise.all(left.flatMap((charge) => ('container' in charge ? [removeContainer(charge)] : [])))
  await untilGone(killed)
  for (const charge of left) {
    if ('path' in charge)
      await rm(charge.path, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }
  process.exit(0)
}

/** @param {number[]} pids */
async function untilGone(pids) {
  const deadline = Date.now() + 10_000
  while (pids.some(isAlive) && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/**
 * @param {{ container: string, socketPath: string }} charge
 * @returns {Promise<void>}
 */
function removeContainer({ container, socketPath }) {
  return new Promise((resolve) => {
    const path = `/containers/${container}?force=true&v=true`
    request({ socketPath, path, method: 'DELETE' }, (response) => response.resume().once('close', resolve))
      .once('error', () => resolve()) // the engine is gone, and its containers with it
      .end()
  })
}
