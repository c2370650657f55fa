import { lockInTransaction } from '@locks/mysql/transaction'
import { Kysely, MysqlDialect } from 'kysely'
import mysql from 'mysql2'

/** @param {string} url */
export function open(url) {
  const db = new Kysely({ dialect: new MysqlDialect({ pool: mysql.createPool(url) }) })

  const sell = () =>
    db.transaction().execute(async (trx) => {
      await lockInTransaction(trx, 'stock:apples')
      const { amount } = await trx.selectFrom('stock').select('amount').executeTakeFirstOrThrow()
      await trx
        .updateTable('stock')
        .set({ amount: amount - 1 })
        .execute()
    })

  return { sell, close: () => db.destroy() }
}
