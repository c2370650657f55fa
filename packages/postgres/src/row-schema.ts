import type { Place } from './options.ts'
import { namesOf } from './sql.ts'

/** Everything of strategy `row`. May be run again, and over what an earlier version made. */
export function rowSchema(place: Place): readonly string[] {
  const to = namesOf(place)
  const durable = `IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;`
  return [
    // Only ever locked, never changed. What is known of a holder stands elsewhere: nobody can change a locked row.
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
    // The transaction that holds the row is looked for under the lock of the counter: had it ended, its successor's
    // fence might be there already, and this one would be higher though it is older.
    `CREATE OR REPLACE FUNCTION ${to.mint}(p_name bytea, p_attempt text, p_holder text, p_key bigint, p_pid int)
RETURNS bigint LANGUAGE plpgsql AS $locks$
DECLARE
  v_fence bigint;
BEGIN
  ${durable}
  UPDATE ${to.holders} SET fence = fence + 1, attempt = p_attempt, holder = p_holder, since = clock_timestamp(),
    key = p_key, pid = p_pid
  WHERE name = p_name AND NOT pg_try_advisory_xact_lock_shared(p_key) RETURNING fence INTO v_fence;
  IF NOT FOUND THEN
    INSERT INTO ${to.holders} AS h (name, fence, attempt, holder, since, key, pid)
    SELECT p_name, coalesce((SELECT fence FROM ${to.holders} WHERE name = ''), 0) + 1, p_attempt, p_holder,
      clock_timestamp(), p_key, p_pid
    WHERE NOT pg_try_advisory_xact_lock_shared(p_key)
    ON CONFLICT (name) DO UPDATE SET fence = h.fence + 1, attempt = p_attempt, holder = p_holder,
      since = clock_timestamp(), key = p_key, pid = p_pid
    WHERE NOT pg_try_advisory_xact_lock_shared(p_key)
    RETURNING h.fence INTO v_fence;
  END IF;
  RETURN v_fence;
END
$locks$`,
    // A row that is locked has a holder, minted or about to be; with the table locked none of them can mint meanwhile.
    `CREATE OR REPLACE FUNCTION ${to.pruneRows}(p_older_ms bigint) RETURNS bigint LANGUAGE plpgsql AS $locks$
DECLARE
  v_pruned bigint;
  v_highest bigint;
BEGIN
  ${durable}
  LOCK TABLE ${to.holders} IN EXCLUSIVE MODE;
  WITH old AS (
    SELECT r.name FROM ${to.rows} r JOIN ${to.holders} h ON h.name = r.name
    WHERE h.since < clock_timestamp() - p_older_ms * interval '1 millisecond'
    FOR UPDATE OF r SKIP LOCKED
  ), gone AS (
    DELETE FROM ${to.rows} r USING old WHERE r.name = old.name RETURNING r.name
  ), pruned AS (
    DELETE FROM ${to.holders} h USING gone WHERE h.name = gone.name RETURNING h.fence
  ) SELECT count(*), coalesce(max(fence), 0) INTO v_pruned, v_highest FROM pruned;
  INSERT INTO ${to.holders} AS h (name, fence) VALUES ('', v_highest)
  ON CONFLICT (name) DO UPDATE SET fence = greatest(h.fence, v_highest);
  RETURN v_pruned;
END
$locks$`,
  ]
}
