import type { PostgresConnection, Statement } from './connection.ts'
import { errors, FOREIGN } from './errors.ts'
import type { Tables } from './options.ts'
import { namesOf, statement } from './sql.ts'
import type { Names } from './sql.ts'

/** Columns that the functions of every version need, as `pg_attribute` has them; `key`: part of the primary key. */
type Columns = readonly [part: keyof Names, needed: readonly string[]]

const counter = [
  'name bytea key',
  'fence bigint',
  'attempt text',
  'holder text',
  'since timestamp with time zone',
]
const times = ['expires_at timestamp with time zone', 'blocked_until timestamp with time zone']
const wait = ['ttl_ms integer', 'delay_ms integer', 'claim_ms integer', 'listener bigint']

const layouts: readonly Columns[] = [
  ['locks', [...counter, ...times, 'queued boolean']],
  ['waiters', ['name bytea key', 'position bigint key', 'attempt text', 'holder text', ...wait]],
  ['rows', ['name bytea key']],
  ['holders', [...counter, 'key bigint', 'pid integer']],
  ['strategy', ['id integer key', 'strategy text']],
  ['resources', ['resource bytea key', 'fence bigint']],
]

const text = (value: string): string => `'${value}'`
const plainName = (quoted: string): string => quoted.replace(/^.*\./, '').replaceAll('"', '')
const array = (values: readonly string[]): string => `ARRAY[${values.map(text).join()}]::text[]`

/**
 * The first table or function that has one of our names, and that is not ours; NULL if there is none. Reads catalogs
 * only. A table that has all columns of ours is ours, also if another program created it. More columns do no harm if an
 * INSERT can leave them out. A function counts as ours beside our table, or if it names that table.
 */
function foreignIn(tables: Tables): string {
  const to = namesOf(tables)
  const { resources: _, ...named } = to
  const known = layouts.map(
    ([part, needed]) => `(${text(to[part])}, ${text(plainName(to[part]))}, ${array(needed)})`,
  )
  return `(WITH ours AS (SELECT oid FROM pg_namespace WHERE nspname = '${tables.schema}'),
  known (shown, name, needed) AS (VALUES ${known.join(',\n    ')}),
  relations AS (
    SELECT k.*, c.oid, c.relkind FROM known k
    JOIN pg_class c ON c.relname = k.name AND c.relnamespace IN (SELECT oid FROM ours)
  ),
  columns AS (
    SELECT r.name, NOT a.attnotnull OR a.atthasdef OR a.attidentity <> '' AS may_miss,
      concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attnum = ANY (i.indkey) THEN 'key' END) AS it
    FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_index i ON i.indrelid = r.oid AND i.indisprimary
  )
  SELECT min(found.it) FROM (
    SELECT 'table ' || shown AS it FROM relations r
    WHERE relkind <> 'r' OR NOT ARRAY(SELECT c.it FROM columns c WHERE c.name = r.name) @> needed
      OR EXISTS (SELECT FROM columns c WHERE c.name = r.name AND NOT may_miss AND NOT c.it = ANY (needed))
    UNION ALL SELECT 'type ' || k.shown FROM known k JOIN pg_type t ON t.typname = k.name
      AND t.typnamespace IN (SELECT oid FROM ours) AND t.typrelid = 0
      -- A table named without the "_" has an array type of this name, which steps aside for a table.
      AND NOT EXISTS (SELECT FROM pg_type e WHERE e.typarray = t.oid)
    UNION ALL SELECT 'function ' || '"${tables.schema}"."' || p.proname || '"' FROM pg_proc p
    WHERE p.pronamespace IN (SELECT oid FROM ours) AND p.proname = ANY (${array(Object.values(named).map(plainName))})
      AND NOT EXISTS (SELECT FROM relations WHERE shown = ${text(to.locks)})
      AND position(${text(to.locks.slice(0, -1))} IN p.prosrc) = 0
  ) found)`
}

/** Refuses a foreign table, before anything is changed. For the SQL of a migration. */
export function refusingForeign(tables: Tables): string {
  return `DO $locks$
DECLARE
  v_foreign text;
BEGIN
  v_foreign := ${foreignIn(tables)};
  IF v_foreign IS NOT NULL THEN
    RAISE EXCEPTION '% exists, and @locks/postgres did not create it', v_foreign USING ERRCODE = '${FOREIGN}';
  END IF;
END $locks$`
}

/** The same for a call. */
export async function assertOurs(tables: Tables, connection: PostgresConnection): Promise<void> {
  const [foreign] = await connection.ask(lookForForeign(tables))
  if (foreign !== null && foreign !== undefined) throw errors.notOurs(foreign)
}

export function lookForForeign(tables: Tables): Statement {
  return statement(`SELECT $1::text, ${foreignIn(tables)}`)
}
