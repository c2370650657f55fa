import { memberOf, methodOf, notATransaction, running } from '@locks/sql'
import type { Recognise } from '@locks/sql'

/** Clients of PostgreSQL alone, by members that only they have. */
export const transactionClients: readonly Recognise[] = [
  function postgresJs(tx) {
    const unsafe = methodOf(tx, 'unsafe')
    if (typeof tx !== 'function' || unsafe === undefined) return undefined
    if (methodOf(tx, 'begin') === undefined) return running(unsafe)
    return notATransaction('the sql of postgres.js', 'the one that sql.begin(async (sql) => …) gives you')
  },

  function pg(tx) {
    const query = methodOf(tx, 'query')
    if (query === undefined) return undefined
    if ('totalCount' in tx && 'idleCount' in tx)
      return notATransaction('a pool of pg', 'a client of it, after BEGIN')
    return memberOf(tx, 'connectionParameters') === undefined ? undefined : running(query)
  },
]
