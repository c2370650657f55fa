import { onOneConnection } from '@locks/sql'
import type { TableCreation } from '@locks/sql'
import { MysqlConnection } from './connection.ts'
import { errors } from './errors.ts'
import { assertOurs } from './foreign.ts'
import type { Tables, Settings } from './options.ts'
import { LOCK_WAIT_S, setUp } from './runner.ts'
import { namesOf, plainNamesOf, schemaOf } from './schema.ts'

/** How long an acquire waits for another migration before it fails. Core then tries again. */
const OTHER_MIGRATION_S = 2

/** Waits at most `patienceS` for other migrations: IF NOT EXISTS does not keep two from creating the same thing. */
export async function migrating<T>(
  connection: MysqlConnection,
  patienceS: number,
  work: () => Promise<T>,
): Promise<T> {
  const [alone] = await connection.ask("SELECT ?, GET_LOCK('@locks/mysql migrate', ?)", [patienceS])
  if (alone === '1') return work()
  throw errors.unavailable('timed out waiting for another migration; the tables are unchanged, run it again')
}

/** A connection for migrations. The database that `schema` names may not exist yet. */
export function opening({ config, schema }: Settings, closing?: AbortSignal): () => Promise<MysqlConnection> {
  const { database, ...elsewhere } = config
  const target = schema === undefined ? { ...elsewhere, ...(database && { database }) } : elsewhere
  return () => MysqlConnection.open(target, setUp(LOCK_WAIT_S), closing)
}

/** Creates the tables, unless one of the names is taken. */
export async function createTables(tables: Tables, connection: MysqlConnection): Promise<void> {
  await assertOurs(tables, connection)
  for (const text of schemaOf(tables)) await connection.query(text)
}

/** Undefined where the program migrates by itself. */
export function tableCreation(settings: Settings): TableCreation | undefined {
  if (settings.migrate === false) return undefined
  const { locks, rows, holders, named } = namesOf(settings)
  const look = `SELECT ?, COUNT(*) FROM information_schema.TABLES
WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ?`

  /** Whether a lock was acquired there. */
  async function isUsed(connection: MysqlConnection): Promise<boolean> {
    for (const table of [locks, rows, holders, named])
      try {
        const [some] = await connection.ask(`SELECT ?, EXISTS (SELECT 1 FROM ${table})`)
        if (some !== '0') return true
      } catch (error) {
        if (!errors.isMissing(error)) throw error
      }
    return false
  }

  async function created(connection: MysqlConnection): Promise<boolean> {
    // The table of the strategy is created after the others: once it is there, they are.
    const [recorded] = await connection.ask(look, [settings.schema ?? null, plainNamesOf(settings).strategy])
    if (recorded !== '0') return true
    // No transaction: a process that ended meanwhile has left some of the tables, all of them without a lock.
    if (await isUsed(connection)) return false
    await createTables(settings, connection)
    return true
  }

  return {
    create: (closing) =>
      onOneConnection(
        opening(settings, closing),
        settings.errors,
        (connection) =>
          connection.promptly(() => migrating(connection, OTHER_MIGRATION_S, () => created(connection))),
        closing,
      ),
    sql: () => sqlOf(settings),
  }
}

export function sqlOf(tables: Tables): string {
  return `${schemaOf(tables).join(';\n\n')};\n`
}
