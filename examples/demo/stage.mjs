import { randomUUID } from 'node:crypto'
import { hire } from './staff.mjs'
import { warehouseAt } from './warehouse-client.mjs'

const SHOPS = 4
const TTL_MS = 2_000
/** For a machine that is slow or shared. */
const SLOWNESS = Number(process.env['LOCKS_TEST_SLOW'] || 1)

/**
 * @typedef {Awaited<ReturnType<typeof setStage>>} Stage
 * @typedef {{ held: boolean, claim: string }} Claim what is said of a run, and whether it was so
 * @typedef {(stage: Stage) => Promise<Claim[]>} Act
 */

/**
 * One warehouse and some shops, each in its own process, with one shared lock.
 *
 * @param {import('./backend.mjs').Backend} backend
 */
export async function setStage({ config, capabilities }) {
  const keeper = hire('warehouse.mjs', 'warehouse')
  const shops = Array.from({ length: SHOPS }, (_, n) => hire('shop.mjs', `shop ${n + 1}`))
  const { port } = await keeper.next('ready')
  // Unique for each run: other programs may use the backend.
  const lock = `demo-stock-${randomUUID()}`
  const ttlMs = Math.max(TTL_MS, capabilities.minTtlMs)
  const opened = shops.map((shop) => shop.next('opened'))
  shops.forEach((shop, n) => shop.tell({ task: 'open', shop: n + 1, config, port, lock, ttlMs }))
  await Promise.all(opened)
  return {
    shops,
    keeper,
    warehouse: warehouseAt(port),
    /** How late the next holder may be: its poll, and a busy machine. */
    slackMs: (capabilities.wait === 'poll' ? 750 : 500) * SLOWNESS,
    /**
     * The ttl that the store granted. A session-backed store chooses it: then it is the remaining time of a fresh
     * lease, plus the drift margin and the travel time.
     *
     * @param {number} remainingMs
     */
    ttlOf: (remainingMs) => (capabilities.kind === 'lease' ? ttlMs : Math.ceil(remainingMs / 100) * 100),
    async clear() {
      await Promise.all([keeper, ...shops].map((worker) => worker.dismiss()))
    },
  }
}
