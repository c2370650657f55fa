import { methodOf, notATransaction, running } from '@locks/sql'
import type { Recognise, TransactionQuery } from '@locks/sql'

/** Connections of `mysql2`, with callbacks or promises, by members that only they have. */
export const transactionClients: readonly Recognise[] = [
  function mysql2(tx) {
    const query = methodOf(tx, 'query')
    if (query === undefined) return undefined
    if (methodOf(tx, 'getConnection') !== undefined)
      return notATransaction('a pool of mysql2', 'a connection of it, after beginTransaction()')
    if (methodOf(tx, 'beginTransaction') === undefined || methodOf(tx, 'execute') === undefined)
      return undefined
    return methodOf(tx, 'promise') === undefined ? running(query) : withCallback(query)
  },
]

function withCallback(query: (...values: readonly unknown[]) => unknown): TransactionQuery {
  return (sql) =>
    new Promise((resolve, reject) => {
      query(sql, (error: Error | null, rows: unknown) => (error === null ? resolve(rows) : reject(error)))
    })
}
