import { lockInTransaction } from '@locks/postgres/transaction'
import pg from 'pg'

/** @param {string} url */
export function open(url) {
  const pool = new pg.Pool({ connectionString: url })

  async function sell() {
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await lockInTransaction(client, 'stock:apples')
      const { rows } = await client.query('SELECT amount FROM stock')
      await client.query('UPDATE stock SET amount = $1', [rows[0].amount - 1])
      await client.query('COMMIT')
    } catch (error) {
      await client.query('ROLLBACK').catch(() => undefined) // a lost connection refuses this too
      throw error
    } finally {
      client.release()
    }
  }

  return { sell, close: () => pool.end() }
}
