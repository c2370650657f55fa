import { onOneConnection } from '@locks/sql'
import type { TableCreation } from '@locks/sql'
import { MysqlConnection } from './connection.ts'
import { errors } from './errors.ts'
import type { Place, Settings } from './options.ts'
import { LOCK_WAIT_S, setUp } from './runner.ts'
import { plainNamesOf, schemaOf } from './schema.ts'

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
export function opening({ config, schema }: Settings): () => Promise<MysqlConnection> {
  const { database, ...elsewhere } = config
  const target = schema === undefined ? { ...elsewhere, ...(database && { database }) } : elsewhere
  return () => MysqlConnection.open(target, setUp(LOCK_WAIT_S))
}

/** Undefined where the program migrates by itself. */
export function tableCreation(settings: Settings): TableCreation | undefined {
  if (settings.migrate === false) return undefined
  const { strategy, ...others } = plainNamesOf(settings)
  const names = [strategy, ...Object.values(others)]
  const values = [strategy, settings.schema ?? null, ...names]
  const look = `SELECT ?, COUNT(*), COALESCE(SUM(TABLE_NAME = ?), 0) FROM information_schema.TABLES
WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME IN (${names.map(() => '?').join()})`

  async function created(connection: MysqlConnection): Promise<boolean> {
    const [some, recorded] = await connection.ask(look, values)
    // The table of the strategy is created after the others: once it is there, they are.
    if (some !== '0') return recorded !== '0'
    for (const text of schemaOf(settings)) await connection.query(text)
    return true
  }

  return {
    create: () =>
      onOneConnection(opening(settings), settings.errors, (connection) =>
        connection.promptly(() => migrating(connection, OTHER_MIGRATION_S, () => created(connection))),
      ),
    sql: () => sqlOf(settings),
  }
}

export function sqlOf(place: Place): string {
  return `${schemaOf(place).join(';\n\n')};\n`
}
