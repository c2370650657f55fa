import { createLocks } from '@locks/core'
import { fenced, migrate, postgres } from '@locks/postgres'
import { Pool } from 'pg'

// The lock stops shops from selling at the same time. The fence refuses a shop that was paused while it held the lock.
const url = process.env['POSTGRES_URL'] ?? 'postgres://localhost/shop'
const pool = new Pool({ connectionString: url })
await migrate({ url })
await pool.query(`CREATE TABLE IF NOT EXISTS stock
  (item text PRIMARY KEY, amount int NOT NULL CHECK (amount >= 0), fence bigint NOT NULL DEFAULT 0)`)
await pool.query(`INSERT INTO stock (item, amount) VALUES ('chair', 20) ON CONFLICT DO NOTHING`)
const locks = createLocks(postgres({ url }), { waitMs: 60_000 })

let sold = 0
while (await locks.with('stock:chair', (lease) => sell('chair', lease))) sold += 1
console.log(`sold ${sold}`)

// A holder that was paused past the end of its lease: the row has seen a higher fence since.
const old = await locks.with('stock:chair', async (lease) => lease.fence)
await locks.with('stock:chair', (lease) => restock('chair', 0, lease.fence))
console.log(`a write under the old fence changes ${await restock('chair', 1_000, old)} rows`)
await Promise.all([locks.close(), pool.end()])

/**
 * @param {string} item
 * @param {import('@locks/core').Lease} lease
 */
async function sell(item, lease) {
  const { rows } = await pool.query('SELECT amount FROM stock WHERE item = $1', [item])
  if (rows[0].amount === 0) return false
  lease.assertHeld()
  const rowCount = await restock(item, -1, lease.fence)
  if (rowCount === 0) throw new Error('sold by a stale holder: nothing was changed')
  return true
}

/**
 * @param {string} item
 * @param {number} by
 * @param {bigint} fence
 */
async function restock(item, by, fence) {
  const { set, where, value } = fenced(fence, 3) // the third parameter is the fence
  const text = `UPDATE stock SET amount = amount + $2, ${set} WHERE item = $1 AND ${where}`
  return (await pool.query(text, [item, by, value])).rowCount ?? 0
}
