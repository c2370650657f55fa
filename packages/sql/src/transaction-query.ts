import { whatIs } from '@locks/core/adapter'
import type { SqlErrors } from './errors.ts'

/**
 * Runs one statement in an open transaction of the program, and resolves with its result as the library returns it. The
 * statements have no parameters: libraries disagree on how these are written.
 */
export type TransactionQuery = (sql: string) => Promise<unknown>

/** A name that this transaction holds until it ends. */
export interface TransactionLock {
  readonly name: string
  /**
   * Higher than that of every earlier holder of the name. After a rollback this is so as long as the server's clock did
   * not go back.
   */
  readonly fence: bigint
}

/**
 * How one library is recognised by its members; none of them is imported. Returns undefined for objects of other
 * libraries, and the text of an error for an object of this library that is not an open transaction.
 */
export type Recognise = (tx: object) => TransactionQuery | string | undefined

/** Why an object of a known library is refused. */
export const notATransaction = (what: string, instead: string): string =>
  `tx is ${what}, not a transaction, so nothing was locked; pass ${instead}`

/** Libraries that work with several servers. */
const anyServer: readonly Recognise[] = [
  function knex(tx) {
    const raw = methodOf(tx, 'raw')
    if (typeof tx !== 'function' || raw === undefined) return undefined
    if (memberOf(tx, 'isTransaction') !== true)
      return notATransaction('an instance of Knex', 'the trx of knex.transaction(async (trx) => …)')
    const isOver = methodOf(tx, 'isCompleted')?.() === true
    return isOver ? 'tx is a transaction of Knex that is over' : running(raw)
  },

  function prisma(tx) {
    const query = methodOf(tx, '$queryRawUnsafe')
    if (query === undefined) return undefined
    if (methodOf(tx, '$connect') === undefined) return running(query)
    return notATransaction('a client of Prisma', 'the tx of prisma.$transaction(async (tx) => …)')
  },

  function kysely(tx) {
    const run = methodOf(tx, 'executeQuery')
    if (run === undefined || methodOf(tx, 'selectFrom') === undefined) return undefined
    if (memberOf(tx, 'isTransaction') !== true)
      return notATransaction('an instance of Kysely', 'the trx of db.transaction().execute(async (trx) => …)')
    const queryId = { queryId: 'locks' }
    return async (sql) => {
      const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] }
      return run({ sql, parameters: [], query, queryId })
    }
  },

  function typeorm(tx) {
    const of = 'the manager of dataSource.transaction(async (manager) => …)'
    if (methodOf(tx, 'createQueryRunner') !== undefined) return notATransaction('a DataSource of TypeORM', of)
    const runner = methodOf(tx, 'getRepository') === undefined ? tx : memberOf(tx, 'queryRunner')
    const manager = runner !== tx
    if (!isObject(runner)) return manager ? notATransaction('an EntityManager of TypeORM', of) : undefined
    const isActive = memberOf(runner, 'isTransactionActive')
    if (typeof isActive !== 'boolean') return undefined
    const query = methodOf(runner, 'query')
    if (isActive) return query && running(query)
    return notATransaction('a QueryRunner of TypeORM', of)
  },

  function drizzle(tx) {
    const execute = methodOf(tx, 'execute')
    const isDrizzle = methodOf(tx, 'select') !== undefined && methodOf(tx, 'transaction') !== undefined
    if (execute === undefined || !isDrizzle) return undefined
    if (methodOf(tx, 'rollback') !== undefined) return running(execute)
    return notATransaction('a database of Drizzle', 'the tx of db.transaction(async (tx) => …)')
  },
]

/** What runs statements in `tx`: an object of a library that one of `own` or `anyServer` knows, or a function. */
export function transactionQuery(
  errors: SqlErrors,
  tx: unknown,
  own: readonly Recognise[],
  examples: string,
): TransactionQuery {
  if (isObject(tx)) {
    for (const recognise of [...own, ...anyServer]) {
      const found = recognise(tx)
      if (typeof found === 'string') throw errors.invalid(found)
      if (found !== undefined) return found
    }
    if (isQuery(tx)) return tx
  }
  throw errors.invalid(
    `tx must be an open transaction (${examples}, Drizzle, Kysely, Knex, Prisma or TypeORM), ` +
      `or a function that runs one statement in it, not ${whatIs(tx)}`,
  )
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}

function isQuery(tx: object): tx is TransactionQuery {
  return typeof tx === 'function'
}

export function memberOf(of: object, key: string): unknown {
  return Reflect.get(of, key)
}

type Method = (...values: readonly unknown[]) => unknown

/** A method, bound to its object. */
export function methodOf(of: object, key: string): Method | undefined {
  const member = memberOf(of, key)
  if (typeof member !== 'function') return undefined
  return (...values) => {
    const result: unknown = Reflect.apply(member, of, values)
    return result
  }
}

export function running(method: Method): TransactionQuery {
  return async (sql) => method(sql)
}
