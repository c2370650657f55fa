import { lockInTransaction } from '@locks/mysql/transaction'
import mysql from 'mysql2/promise'

/** @param {string} url */
export function open(url) {
  const pool = mysql.createPool(url)

  async function sell() {
    const connection = await pool.getConnection()
    try {
      await connection.beginTransaction()
      await lockInTransaction(connection, 'stock:apples') // first: the snapshot must not be older than the lock
      const [rows] = await connection.query('SELECT amount FROM stock')
      const { amount } = Object(rows)[0]
      await connection.query('UPDATE stock SET amount = ?', [amount - 1])
      await connection.commit()
    } catch (error) {
      await connection.rollback().catch(() => undefined) // a lost connection refuses this too
      throw error
    } finally {
      connection.release()
    }
  }

  return { sell, close: () => pool.end() }
}
