import type { Tables } from './options.ts'
import { durable, old, plpgsql, pruning } from './schema-parts.ts'
import { living, namesOf, nextFence } from './sql.ts'

/** The schema of strategies `row` and `advisory`. Can be run again, also over the schema of an earlier version. */
export function rowSchema(tables: Tables): readonly string[] {
  const to = namesOf(tables)
  const idle = `${old('h.since')} AND (p_names IS NULL OR h.name = ANY (p_names))
        AND NOT EXISTS (SELECT FROM living WHERE living.key = h.key)`
  return [
    // Only ever locked, never changed. The holder is in another table: a locked row cannot be changed.
    `CREATE TABLE IF NOT EXISTS ${to.rows} (name bytea PRIMARY KEY)`,
    `CREATE TABLE IF NOT EXISTS ${to.holders} (
  name bytea PRIMARY KEY,
  fence bigint NOT NULL,
  attempt text,
  holder text,
  since timestamptz,
  key bigint,
  pid int
) WITH (fillfactor = 50)`,
    `INSERT INTO ${to.holders} (name, fence) VALUES ('', 0) ON CONFLICT DO NOTHING`,
    // Checks under the lock of the counter that the holding transaction lives: if it had ended, its successor's fence
    // might be stored already, and this older holder would get a higher one.
    plpgsql(`${to.mint}(p_name bytea, p_attempt text, p_holder text, p_key bigint, p_pid int) RETURNS bigint AS $locks$
DECLARE
  v_fence bigint;
  v_raised bigint;
BEGIN
  ${durable}
  INSERT INTO ${to.holders} AS h (name, fence, attempt, holder, since, key, pid)
  SELECT p_name, ${nextFence(`coalesce((SELECT fence FROM ${to.holders} WHERE name = ''), 0)`)},
    p_attempt, p_holder, clock_timestamp(), p_key, p_pid
  WHERE NOT pg_try_advisory_xact_lock_shared(p_key)
  ON CONFLICT (name) DO UPDATE SET fence = ${nextFence('h.fence')}, attempt = p_attempt, holder = p_holder,
    since = clock_timestamp(), key = p_key, pid = p_pid
  WHERE NOT pg_try_advisory_xact_lock_shared(p_key)
  RETURNING h.fence INTO v_fence;
  -- If the name was pruned in between, its stored fence is visible only now.
  UPDATE ${to.holders} h SET fence = kept.fence + 1 FROM (SELECT fence FROM ${to.holders} WHERE name = '') kept
  WHERE h.name = p_name AND v_fence IS NOT NULL AND h.fence <= kept.fence RETURNING h.fence INTO v_raised;
  RETURN coalesce(v_raised, v_fence);
END`),
    // A locked row has a holder, or soon has one, and is skipped. While a row is locked here, its name cannot be held.
    // It is read again once locked: it may have been held since it was found. Two kinds of holders need no row: a
    // transaction that holds a name by itself has locked the counter; an advisory lock shows as a living key. A mint
    // that meets this waits for it, and starts above what it deleted.
    pruning(
      to.pruneRows,
      to.holders,
      `WITH ${living} SELECT both_rows.name FROM (
      SELECT r.name FROM ${to.rows} r JOIN ${to.holders} h ON h.name = r.name WHERE ${idle}
      LIMIT p_most FOR UPDATE OF r, h SKIP LOCKED
    ) both_rows UNION ALL SELECT counter.name FROM (
      SELECT h.name FROM ${to.holders} h WHERE ${idle} AND h.name <> ''
        AND NOT EXISTS (SELECT FROM ${to.rows} r WHERE r.name = h.name)
      LIMIT p_most FOR UPDATE SKIP LOCKED
    ) counter LIMIT p_most`,
      `WITH pruned AS (
    DELETE FROM ${to.holders} WHERE name = ANY (v_names) AND ${old('since')} RETURNING name, fence
  ), gone AS (
    DELETE FROM ${to.rows} r USING pruned WHERE r.name = pruned.name
  )`,
    ),
    // Otherwise it would stay beside the one with more parameters.
    `DROP FUNCTION IF EXISTS ${to.pruneRows}(bigint), ${to.pruneRows}(bigint, int)`,
    // It did not look at the clock, so its fences could be below those of transactions.
    `DROP FUNCTION IF EXISTS ${to.oldMint}(bytea, text, text, bigint, int)`,
  ]
}
