import { errors } from './errors.ts'
import type { Cell, MysqlConnection, Values } from './connection.ts'
import { newEcho } from './echo.ts'
import type { Tables } from './options.ts'
import { namesOf, plainNamesOf } from './schema.ts'
import type { Names } from './schema.ts'

/** Runs a statement whose first value is returned as its first column, which is left out here. */
type Look = (text: string, values: Values) => Promise<readonly (readonly Cell[])[]>

const counter = [
  'name varbinary key',
  'fence bigint',
  'attempt varbinary',
  'holder mediumblob',
  'since datetime',
]
const session = [...counter, 'hold varbinary']

/** Columns that the statements need, as `information_schema` has them. */
const known: readonly (readonly [part: keyof Names, columns: readonly string[]])[] = [
  ['locks', [...counter, 'verdict tinyint', 'expires_at datetime', 'blocked_until datetime']],
  ['rows', ['name varbinary key']],
  ['holders', session],
  ['named', session],
  ['pruned', ['id tinyint key', 'fence bigint']],
  ['strategy', ['id tinyint key', 'strategy varbinary']],
  ['resources', ['resource varbinary key', 'fence bigint']],
]

/**
 * The first table or view that has one of our names, and that is not ours. A table that has all columns of ours is
 * ours, also if another program created it. More columns do no harm if an INSERT can leave them out.
 */
export async function foreignIn(tables: Tables, look: Look): Promise<string | undefined> {
  const [shown, names] = [namesOf(tables), { ...plainNamesOf(tables), resources: 'fenced_resources' }]
  const schema = tables.schema === undefined ? 'DATABASE()' : `'${tables.schema}'`
  // Each name by itself, and no join: for a list of names, or names from a join, MariaDB opens all tables that it has.
  const looks = Object.values(names).map((name) => {
    const named = `TABLE_SCHEMA = ${schema} AND TABLE_NAME = '${name}'`
    return `SELECT @@lower_case_table_names, TABLE_NAME,
    (SELECT TABLE_TYPE FROM information_schema.TABLES WHERE ${named}) AS type, COLUMN_NAME,
    CONCAT(DATA_TYPE, IF(COLUMN_KEY = 'PRI', ' key', '')),
    IS_NULLABLE = 'YES' OR COLUMN_DEFAULT IS NOT NULL OR EXTRA <> ''
  FROM information_schema.COLUMNS WHERE ${named}`
  })
  // A limit of its own: a session may have `sql_select_limit`.
  const found = await look(
    `SELECT ?, found.* FROM (${looks.join('\n  UNION ALL ')}) AS found LIMIT 1000000`,
    [],
  )
  const foreign = known.find(([part, wanted]) => {
    const its = found.filter(([folded, name]) => isNamed(folded, name, names[part]))
    const columns = new Map(its.map(([, , , name, type, mayMiss]) => [`${name} ${type}`, mayMiss === '1']))
    const isOurs =
      wanted.every((column) => columns.has(column)) &&
      [...columns].every(([column, mayMiss]) => mayMiss || wanted.includes(column)) &&
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
