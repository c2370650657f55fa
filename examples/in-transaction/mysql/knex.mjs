import { lockInTransaction } from '@locks/mysql/transaction'
import knex from 'knex'

/** @param {string} url */
export function open(url) {
  const db = knex({ client: 'mysql2', connection: url })

  const sell = () =>
    db.transaction(async (trx) => {
      await lockInTransaction(trx, 'stock:apples')
      const { amount } = await trx('stock').first('amount')
      await trx('stock').update({ amount: amount - 1 })
    })

  return { sell, close: () => db.destroy() }
}
