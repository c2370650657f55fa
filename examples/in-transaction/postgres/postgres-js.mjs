import { lockInTransaction } from '@locks/postgres/transaction'
import postgres from 'postgres'

/** @param {string} url */
export function open(url) {
  const sql = postgres(url)

  const sell = () =>
    sql.begin(async (tx) => {
      await lockInTransaction(tx, 'stock:apples')
      const [{ amount }] = await tx`SELECT amount FROM stock`
      await tx`UPDATE stock SET amount = ${amount - 1}`
    })

  return { sell, close: () => sql.end() }
}
