// One shop: a process that sells from the warehouse, on the commands of the demo.
import { isLockError, openLocks } from '@locks/core'
import { setTimeout as sleep } from 'node:timers/promises'
import { warehouseAt } from './warehouse-client.mjs'

/**
 * @typedef {{ task: 'open', shop: number, config: import('@locks/core').LocksConfig, port: number, lock: string, ttlMs: number }} Opening
 * @typedef {Opening | { task: 'sell', locked: boolean, tills: number, buyers: number }
 *   | { task: 'hold-forever' | 'sell-naively' | 'take-over' | 'go-on' }} Task
 *
 * @typedef {{ news: 'opened' | 'waiting' | 'closing-time' }
 *   | { news: 'served', item: number | undefined, fence: bigint | undefined }
 *   | { news: 'holding', fence: bigint, leaseMs: number }
 *   | { news: 'woke', state: string, aborted: boolean, refused: string | undefined }
 *   | { news: 'told', code: string }
 *   | { news: 'failed', message: string }} News
 */

/** @param {News} news */
function tell(news) {
  // The parent is gone: the demo was killed.
  process.send?.(news, undefined, undefined, (error) => error && process.exit())
}

/** @type {() => void} */
let goOn

/** @param {Opening} opening */
async function open({ shop, config, port, lock, ttlMs }) {
  const retry = { delayMs: 5, maxDelayMs: 100 }
  const locks = await openLocks(config, { ttlMs, waitMs: 60_000, retry, label: `shop ${shop}` })
  locks.on('contended', () => tell({ news: 'waiting' }))
  return { locks, lock, warehouse: warehouseAt(port) }
}

/** @typedef {Awaited<ReturnType<typeof open>>} Shop */

/**
 * Reads, takes the money, writes: correct only if no other shop does so in between.
 *
 * @param {Shop} shop
 * @param {bigint} [fence]
 */
async function sellOne({ warehouse }, fence) {
  const left = await warehouse.read(fence)
  if (left === 0) return tell({ news: 'served', item: undefined, fence })
  await sleep(1 + Math.random() * 3)
  const refused = await warehouse.write(left - 1, fence)
  if (refused !== undefined) throw new Error(refused)
  tell({ news: 'served', item: left, fence })
}

/**
 * @param {Shop} shop
 * @param {{ locked: boolean, tills: number, buyers: number }} task
 */
async function sell(shop, { locked, tills, buyers }) {
  let queue = buyers
  const till = async () => {
    while (queue-- > 0) {
      if (locked) await shop.locks.with(shop.lock, (lease) => sellOne(shop, lease.fence))
      else await sellOne(shop)
    }
  }
  await Promise.all(Array.from({ length: tills }, till))
  tell({ news: 'closing-time' })
}

/** @param {Shop} shop */
async function holdForever({ locks, lock }) {
  await locks.with(lock, ({ fence, remainingMs }) => {
    tell({ news: 'holding', fence, leaseMs: remainingMs })
    return new Promise(() => undefined)
  })
}

/** @param {Shop} shop */
async function takeOver(shop) {
  await shop.locks.with(shop.lock, async ({ fence, remainingMs }) => {
    tell({ news: 'holding', fence, leaseMs: remainingMs })
    await sellOne(shop, fence)
  })
}

/**
 * The classic mistake: it held the lock when it read, so it writes, however long it slept in between.
 *
 * @param {Shop} shop
 */
async function sellNaively({ locks, lock, warehouse }) {
  try {
    await locks.with(lock, async (lease) => {
      const left = await warehouse.read(lease.fence)
      const told = new Promise((resolve) => (goOn = () => resolve(undefined)))
      tell({ news: 'holding', fence: lease.fence, leaseMs: lease.remainingMs })
      await told
      const refused = await warehouse.write(left - 1, lease.fence)
      tell({ news: 'woke', state: lease.state, aborted: lease.signal.aborted, refused })
    })
    tell({ news: 'told', code: 'nothing' })
  } catch (error) {
    if (!isLockError(error)) throw error
    tell({ news: 'told', code: error.code })
  }
}

/** @type {Promise<Shop> | undefined} */
let opened

/** @param {Task} task */
async function perform(task) {
  if (task.task === 'open') {
    await (opened = open(task))
    return tell({ news: 'opened' })
  }
  if (task.task === 'go-on') return goOn()
  const shop = await opened
  if (shop === undefined) throw new Error('the shop was never opened')
  if (task.task === 'sell') await sell(shop, task)
  else if (task.task === 'hold-forever') await holdForever(shop)
  else if (task.task === 'take-over') await takeOver(shop)
  else await sellNaively(shop)
}

/** @param {Task} task */
async function obey(task) {
  try {
    await perform(task)
  } catch (error) {
    tell({ news: 'failed', message: error instanceof Error ? error.message : String(error) })
  }
}

process.on('message', (/** @type {Task} */ task) => void obey(task))
process.on('SIGINT', () => undefined) // a terminal sends it to the whole group; the demo decides
process.on('disconnect', () => process.exit())
