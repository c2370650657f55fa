import { lockInTransaction } from '@locks/mysql/transaction'
import { drizzle } from 'drizzle-orm/mysql2'
import { int, mysqlTable } from 'drizzle-orm/mysql-core'
import mysql from 'mysql2/promise'

const stock = mysqlTable('stock', { amount: int().notNull() })

/** @param {string} url */
export function open(url) {
  const pool = mysql.createPool(url)
  const db = drizzle(pool)

  const sell = () =>
    db.transaction(async (tx) => {
      await lockInTransaction(tx, 'stock:apples')
      const [{ amount }] = await tx.select().from(stock)
      await tx.update(stock).set({ amount: amount - 1 })
    })

  return { sell, close: () => pool.end() }
}
