import type { Tables } from './options.ts'
import { old, plpgsql, pruning } from './schema-parts.ts'
import { living, namesOf } from './sql.ts'

/** Functions that delete the rows of unused locks. */
export function pruneFunctions(tables: Tables): readonly string[] {
  const to = namesOf(tables)
  return [
    // Locks only rows that are not in use, never the table.
    pruning(
      to.prune,
      to.locks,
      `SELECT name FROM ${to.locks}
    WHERE name <> '' AND ${old('since')} AND (attempt IS NULL OR ${old('blocked_until')})
      AND (p_names IS NULL OR name = ANY (p_names))
      AND NOT EXISTS (SELECT FROM ${to.waiters} w WHERE w.name = ${to.locks}.name)
    LIMIT p_most FOR UPDATE SKIP LOCKED`,
      // A waiter may have arrived before the row was locked; none can arrive now.
      `WITH pruned AS (
    DELETE FROM ${to.locks} l
    WHERE name = ANY (v_names) AND NOT EXISTS (SELECT FROM ${to.waiters} w WHERE w.name = l.name)
    RETURNING fence
  )`,
    ),
    // Waiters whose listener is gone, of names that nobody asked for since.
    plpgsql(`${to.pruneWaiters}() RETURNS void AS $locks$
BEGIN
  WITH ${living}, dead AS (
    SELECT attempt FROM ${to.waiters} WHERE listener NOT IN (SELECT key FROM living) FOR UPDATE SKIP LOCKED
  ) DELETE FROM ${to.waiters} w USING dead WHERE w.attempt = dead.attempt;
END`),
  ]
}

/** Updates the tables and functions of an earlier version; no effect on current ones. Privileges stay. */
export function upgrade(tables: Tables): readonly string[] {
  const to = namesOf(tables)
  const column = (where: string): string =>
    `EXISTS (SELECT FROM pg_attribute WHERE attrelid = '${to.waiters}'::regclass AND ${where})`
  return [
    // The sequence of an identity column is unlogged like its table, and may be unusable on a promoted standby.
    `DO $locks$ BEGIN
  IF ${column("attname = 'position' AND attidentity <> ''")} THEN
    ALTER TABLE ${to.waiters} ALTER COLUMN position DROP IDENTITY;
  END IF;
  IF NOT ${column("attname = 'secret'")} THEN
    ALTER TABLE ${to.waiters} ADD COLUMN secret text;
  END IF;
  IF NOT ${column("attname = 'since'")} THEN
    -- In two steps: otherwise waiters that are there would get the time of now.
    ALTER TABLE ${to.waiters} ADD COLUMN since timestamptz;
    ALTER TABLE ${to.waiters} ALTER COLUMN since SET DEFAULT clock_timestamp();
  END IF;
END $locks$`,
    // Otherwise the old function would stay beside the one with other parameters or another result.
    `DROP FUNCTION IF EXISTS ${[
      `${to.passOn}(bytea, text)`,
      `${to.oldAttempt}(bytea, text, text, int, int, int, bigint)`,
      // Its own lost grant could keep an attempt out.
      `${to.oldAttempt}(bytea, text, text, int, int, int, bigint, text, boolean)`,
      `${to.release}(bytea, text)`,
      `${to.withdraw}(bytea, text)`,
      `${to.break}(bytea, bigint)`,
      `${to.prune}(bigint)`,
      `${to.prune}(bigint, int)`,
    ].join(', ')}`,
    `DO $locks$ BEGIN
  IF (SELECT pg_get_function_result(to_regprocedure('${to.renew}(bytea[], text[], int[], int[])'))) = 'SETOF text' THEN
    DROP FUNCTION ${to.renew}(bytea[], text[], int[], int[]);
  END IF;
END $locks$`,
  ]
}
