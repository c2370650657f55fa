import { lockInTransaction } from '@locks/postgres/transaction'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable } from 'drizzle-orm/pg-core'
import pg from 'pg'

const stock = pgTable('stock', { amount: integer().notNull() })

/** @param {string} url */
export function open(url) {
  const pool = new pg.Pool({ connectionString: url })
  const db = drizzle(pool)

  const sell = () =>
    db.transaction(async (tx) => {
      await lockInTransaction(tx, 'stock:apples')
      const [{ amount }] = await tx.select().from(stock)
      await tx.update(stock).set({ amount: amount - 1 })
    })

  return { sell, close: () => pool.end() }
}
