import { onOneConnection } from '@locks/sql'
import type { TableCreation } from '@locks/sql'
import { PostgresConnection } from './connection.ts'
import { isUnsupported } from './errors.ts'
import { assertOurs, refusingForeign } from './foreign.ts'
import { resourcesSchema } from './guard.ts'
import type { Tables, Settings } from './options.ts'
import { rowSchema } from './row-schema.ts'
import { uniqueKeySchema } from './schema.ts'
import { namesOf, plain } from './sql.ts'
import { strategySchema } from './strategy.ts'

/** How long an acquire waits for another migration before it fails. Core then tries again. */
const OTHER_MIGRATION_MS = 2_000

/** What creates the tables and functions. It can be run again, also over those of an earlier version. */
function schemaOf(tables: Tables): readonly string[] {
  return [
    refusingForeign(tables),
    // IF NOT EXISTS alone asks for the right to create schemas first, which the owner of one may not have.
    `DO $locks$ BEGIN
  IF to_regnamespace('"${tables.schema}"') IS NULL THEN
    CREATE SCHEMA IF NOT EXISTS "${tables.schema}";
  END IF;
END $locks$`,
    ...uniqueKeySchema(tables),
    ...rowSchema(tables),
    strategySchema(tables),
    ...resourcesSchema(tables),
  ]
}

/**
 * Runs what creates tables, after other migrations: IF NOT EXISTS does not keep two from creating the same thing. Waits
 * at most `patienceMs` for each of them; 0: as long as it takes.
 */
export function migrating<T>(
  connection: PostgresConnection,
  patienceMs: number,
  work: () => Promise<T>,
): Promise<T> {
  return inTransaction(connection, async () => {
    await connection.query(plain(`SET LOCAL lock_timeout = ${patienceMs}`))
    await connection.query(
      plain("SELECT pg_advisory_xact_lock(hashtextextended('@locks/postgres migrate', 0))"),
    )
    return work()
  })
}

/** Creates or updates the tables and functions, unless one of the names is taken. */
export async function createTables(tables: Tables, connection: PostgresConnection): Promise<void> {
  await assertOurs(tables, connection)
  for (const text of schemaOf(tables)) await connection.query(plain(text))
}

/** Undefined where the program migrates by itself. */
export function tableCreation(settings: Settings): TableCreation | undefined {
  const { config, errors, migrate } = settings
  if (migrate === false) return undefined
  const to = namesOf(settings)
  const there = [to.locks, to.rows, to.holders].map((name) => `to_regclass('${name}') IS NOT NULL`)
  // To read a table is what makes a session, which a pooler has lent, notice tables that were missing before.
  const look = plain(
    `SELECT $1::text, to_regclass('${to.strategy}') IS NOT NULL, ${there.join(' OR ')} FROM pg_class LIMIT 1`,
  )

  const created = (connection: PostgresConnection): Promise<boolean> =>
    migrating(connection, OTHER_MIGRATION_MS, async () => {
      const [recorded, some] = await connection.ask(look)
      if (recorded === 't' || some === 't') return recorded === 't'
      await createTables(settings, connection)
      return true
    })

  return {
    create: (closing) =>
      onOneConnection(
        () => PostgresConnection.open(config, { named: false, closing }),
        errors,
        (connection) => connection.promptly(() => created(connection)),
        closing,
      ),
    sql: () => sqlOf(settings),
  }
}

export function sqlOf(tables: Tables): string {
  return `${schemaOf(tables).join(';\n\n')};\n`
}

/**
 * Read committed: under other levels a transaction fails when another session changes the same rows. Transactions may
 * be read-only by default. A standby refuses all others; there the first write fails, with an error that says why.
 */
export async function inTransaction<T>(connection: PostgresConnection, work: () => Promise<T>): Promise<T> {
  const begin = 'BEGIN ISOLATION LEVEL READ COMMITTED'
  await connection.query(plain(`${begin}, READ WRITE`)).catch((error: unknown) => {
    if (!isUnsupported(error)) throw error
    return connection.query(plain(begin))
  })
  const result = await work()
  await connection.query(plain('COMMIT'))
  return result
}
