import { errors } from './errors.ts'
import type { Cell, MysqlConnection, Values } from './connection.ts'
import { newEcho } from './echo.ts'
import type { Tables } from './options.ts'
import { namesOf, plainNamesOf } from './schema.ts'
import type { Names } from './schema.ts'

/** Runs a statement whose first value is returned as its first column, which is left out here. */
type Look = (text: string, values: Values) => Promise<readonly (readonly Cell[])[]>

const counter = ['name varbinary', 'fence bigint', 'attempt varbinary', 'holder mediumblob', 'since datetime']
const session = [...counter, 'hold varbinary']

/** Tables of the schema with their columns, as `information_schema` has them. */
const known: readonly (readonly [part: keyof Names, columns: readonly string[]])[] = [
  ['locks', [...counter, 'verdict tinyint', 'expires_at datetime', 'blocked_until datetime']],
  ['rows', ['name varbinary']],
  ['holders', session],
  ['named', session],
  ['pruned', ['id tinyint', 'fence bigint']],
  ['strategy', ['id tinyint', 'strategy varbinary']],
  ['resources', ['resource varbinary', 'fence bigint']],
]

/** The first table or view that has one of our names, and that this adapter did not create. */
export async function foreignIn(tables: Tables, look: Look): Promise<string | undefined> {
  const [shown, names] = [namesOf(tables), { ...plainNamesOf(tables), resources: 'fenced_resources' }]
  const found = await look(
    `SELECT ?, @@lower_case_table_names, t.TABLE_NAME, t.TABLE_TYPE, c.COLUMN_NAME, c.DATA_TYPE
FROM information_schema.TABLES t LEFT JOIN information_schema.COLUMNS c
  ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME
WHERE t.TABLE_SCHEMA = COALESCE(?, DATABASE()) AND t.TABLE_NAME IN (?, ?, ?, ?, ?, ?, ?)`,
    [tables.schema ?? null, ...Object.values(names)],
  )
  const foreign = known.find(([part, wanted]) => {
    const its = found.filter(([folded, name]) => isNamed(folded, name, names[part]))
    const columns = its.map(([, , , column, type]) => `${column} ${type}`)
    const isOurs =
      columns.toSorted().join() === wanted.toSorted().join() &&
      its.every(([, , kind]) => kind === 'BASE TABLE')
    return its.length > 0 && !isOurs
  })
  return foreign && `table ${shown[foreign[0]]}`
}

/** Refuses a foreign table. */
export async function assertOurs(tables: Tables, connection: MysqlConnection): Promise<void> {
  const foreign = await foreignIn(tables, async (text, values) => {
    const { rows } = await connection.query(text, [newEcho(), ...values])
    return rows.map(([, ...row]) => row)
  })
  if (foreign !== undefined) throw errors.notOurs(foreign)
}

function isNamed(folded: Cell, name: Cell, wanted: string): boolean {
  return name === wanted || (folded !== '0' && name?.toLowerCase() === wanted.toLowerCase())
}
