import type { Tables } from './options.ts'
import { fresh, old, plpgsql, pruning } from './schema-parts.ts'
import { living, namesOf } from './sql.ts'

/** Short: attempts that wait for locks wait for the table meanwhile. */
const ALTER_WAIT_MS = 200
const ALTER_PAUSE_S = 0.5
const ALTER_TRIES = 10

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
      fresh,
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
  const has = (where: string): string =>
    `EXISTS (SELECT FROM pg_attribute WHERE attrelid = '${to.waiters}'::regclass AND ${where})`
  const identity = has("attname = 'position' AND attidentity <> ''")
  const [secret, since] = [has("attname = 'secret'"), has("attname = 'since' AND atthasdef")]
  return [
    // While this waits for the table, all others wait behind it; a backup may use the table for hours. The sequence of
    // an identity column is unlogged like its table, and may be unusable on a promoted standby.
    `DO $locks$
DECLARE
  v_patience text := current_setting('lock_timeout');
BEGIN
  FOR v_try IN 1..${ALTER_TRIES} LOOP
    EXIT WHEN NOT ${identity} AND ${secret} AND ${since};
    BEGIN
      PERFORM set_config('lock_timeout', '${ALTER_WAIT_MS}', true);
      LOCK TABLE ${to.waiters} IN ACCESS EXCLUSIVE MODE;
      PERFORM set_config('lock_timeout', v_patience, true);
      IF ${identity} THEN
        ALTER TABLE ${to.waiters} ALTER COLUMN position DROP IDENTITY;
      END IF;
      ALTER TABLE ${to.waiters} ADD COLUMN IF NOT EXISTS secret text;
      -- In two steps: otherwise waiters that are there would get the time of now.
      ALTER TABLE ${to.waiters} ADD COLUMN IF NOT EXISTS since timestamptz;
      ALTER TABLE ${to.waiters} ALTER COLUMN since SET DEFAULT clock_timestamp();
    EXCEPTION WHEN lock_not_available THEN
      IF v_try = ${ALTER_TRIES} THEN
        RAISE EXCEPTION 'other sessions use table %, as a backup does, so it was not updated; nothing was changed',
          '${to.waiters}' USING ERRCODE = 'lock_not_available';
      END IF;
      PERFORM pg_sleep(${ALTER_PAUSE_S});
    END;
  END LOOP;
END $locks$`,
    // Otherwise the old function would stay beside the one with other parameters or another result.
    `DROP FUNCTION IF EXISTS ${[
      `${to.passOn}(bytea, text)`,
      `${to.attempt}(bytea, text, text, int, int, int, bigint)`,
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
