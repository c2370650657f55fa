import { lockInTransaction } from '@locks/postgres/transaction'
import { DataSource } from 'typeorm'

/** @param {string} url */
export async function open(url) {
  const dataSource = await new DataSource({ type: 'postgres', url }).initialize()

  const sell = () =>
    dataSource.transaction(async (manager) => {
      await lockInTransaction(manager, 'stock:apples')
      const [{ amount }] = await manager.query('SELECT amount FROM stock')
      await manager.query(`UPDATE stock SET amount = ${amount - 1}`)
    })

  return { sell, close: () => dataSource.destroy() }
}
