import { lockInTransaction } from '@locks/postgres/transaction'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'

/** @param {string} url */
export function open(url) {
  const db = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }) })

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
