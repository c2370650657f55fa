import type { PostgresConnection, Statement } from './connection.ts'
import { errors, FOREIGN } from './errors.ts'
import type { Tables } from './options.ts'
import { namesOf, statement } from './sql.ts'
import type { Names } from './sql.ts'

/** Columns of a table of ours, as `pg_attribute` has them; `optional` are those that other versions lack. */
interface Columns {
  readonly part: keyof Names
  readonly needed: readonly string[]
  readonly optional?: readonly string[]
}

const since = 'since timestamp with time zone'
const counter = ['name bytea', 'fence bigint', 'attempt text', 'holder text', since]
const times = ['expires_at timestamp with time zone', 'blocked_until timestamp with time zone']
const wait = ['ttl_ms integer', 'delay_ms integer', 'claim_ms integer', 'listener bigint']

const layouts: readonly Columns[] = [
  { part: 'locks', needed: [...counter, ...times, 'queued boolean'] },
  {
    part: 'waiters',
    needed: ['name bytea', 'position bigint', 'attempt text', 'holder text', ...wait],
    optional: ['secret text', since],
  },
  { part: 'rows', needed: ['name bytea'] },
  { part: 'holders', needed: [...counter, 'key bigint', 'pid integer'] },
  { part: 'strategy', needed: ['id integer', 'strategy text'] },
  { part: 'resources', needed: ['resource bytea', 'fence bigint'] },
]

const text = (value: string): string => `'${value}'`
const plainName = (quoted: string): string => quoted.replace(/^.*\./, '').replaceAll('"', '')
const array = (values: readonly string[]): string => `ARRAY[${values.map(text).join()}]::text[]`

/**
 * The first table or function that has one of our names, and that no version of this adapter created; NULL if there is
 * none. Reads catalogs only. A function counts as ours beside our table, or if it names that table.
 */
function foreignIn(tables: Tables): string {
  const to = namesOf(tables)
  const { resources: _, ...named } = to
  const known = layouts.map(({ part, needed, optional = [] }) => {
    return `(${text(to[part])}, ${text(plainName(to[part]))}, ${array(needed)}, ${array(optional)})`
  })
  return `(WITH ours AS (SELECT oid FROM pg_namespace WHERE nspname = '${tables.schema}'),
  known (shown, name, needed, optional) AS (VALUES ${known.join(',\n    ')}),
  relations AS (
    SELECT k.*, c.relkind, ARRAY(SELECT a.attname || ' ' || format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
    FROM known k JOIN pg_class c ON c.relname = k.name AND c.relnamespace IN (SELECT oid FROM ours)
  )
  SELECT min(found.it) FROM (
    SELECT 'table ' || shown AS it FROM relations
    WHERE relkind <> 'r' OR NOT (columns @> needed AND columns <@ (needed || optional))
    UNION ALL SELECT 'type ' || k.shown FROM known k JOIN pg_type t ON t.typname = k.name
      AND t.typnamespace IN (SELECT oid FROM ours) AND t.typrelid = 0
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
