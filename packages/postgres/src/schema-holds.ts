import type { Tables } from './options.ts'
import { durable, fresh, later, plpgsql } from './schema-parts.ts'
import { epochMs, namesOf } from './sql.ts'

/** Functions for existing holds: renewal, hand-over, break, inspection. */
export function holdFunctions(tables: Tables): readonly string[] {
  const to = namesOf(tables)
  return [
    // One row for each renewal, 'locked' where another session has locked the row of the hold.
    plpgsql(`${to.renew}(p_names bytea[], p_attempts text[], p_ttls int[], p_delays int[])
RETURNS TABLE (o_attempt text, o_outcome text) AS $locks$
DECLARE
  v_locked bytea[];
  v_renewed text[];
BEGIN
  ${fresh}
  ${durable}
  v_locked := ARRAY(SELECT l.name FROM ${to.locks} l WHERE l.name = ANY (p_names) FOR NO KEY UPDATE SKIP LOCKED);
  WITH renewed AS (
    UPDATE ${to.locks} l SET ${later('r.ttl', 'r.delay')}
    FROM unnest(p_names, p_attempts, p_ttls, p_delays) AS r (name, attempt, ttl, delay)
    WHERE l.name = r.name AND l.name = ANY (v_locked) AND l.attempt = r.attempt AND l.expires_at > clock_timestamp()
    RETURNING l.attempt
  ) SELECT coalesce(array_agg(renewed.attempt), '{}') INTO v_renewed FROM renewed;
  RETURN QUERY SELECT r.attempt, CASE WHEN r.attempt = ANY (v_renewed) THEN 'renewed'
    WHEN r.name = ANY (v_locked) OR NOT EXISTS (SELECT FROM ${to.locks} l WHERE l.name = r.name) THEN 'lost'
    ELSE 'locked' END
  FROM unnest(p_names, p_attempts) AS r (name, attempt);
END`),
    // For a row that was locked: waits in the server's queue for it, but not for long.
    plpgsql(`${to.renewLocked}(p_name bytea, p_attempt text, p_ttl int, p_delay int, p_patience int)
RETURNS text AS $locks$
BEGIN
  ${durable}
  PERFORM set_config('lock_timeout', p_patience::text, true);
  UPDATE ${to.locks} SET ${later('p_ttl', 'p_delay')}
  WHERE name = p_name AND attempt = p_attempt AND expires_at > clock_timestamp();
  RETURN CASE WHEN FOUND THEN 'renewed' ELSE 'lost' END;
EXCEPTION WHEN lock_not_available THEN
  RETURN 'unknown';
END`),
    plpgsql(`${to.adopt}(
  p_name bytea, p_from text, p_fence bigint, p_attempt text, p_holder text, p_ttl int, p_delay int
) RETURNS bigint AS $locks$
DECLARE
  v_fence bigint;
BEGIN
  ${durable}
  UPDATE ${to.locks} SET attempt = p_attempt, holder = p_holder, ${later('p_ttl', 'p_delay')}
  WHERE name = p_name AND attempt IN (p_from, p_attempt) AND fence = p_fence AND expires_at > clock_timestamp()
  RETURNING fence INTO v_fence;
  RETURN v_fence;
END`),
    plpgsql(`${to.break}(p_name bytea, p_fence bigint, p_tell boolean) RETURNS text AS $locks$
BEGIN
  ${fresh}
  PERFORM FROM ${to.locks} WHERE name = p_name AND fence = p_fence AND blocked_until > clock_timestamp() FOR UPDATE;
  IF NOT FOUND THEN
    RETURN 'not-held';
  END IF;
  PERFORM ${to.passOn}(p_name, NULL, p_tell);
  RETURN 'broken';
END`),
    plpgsql(`${to.inspect}(
  p_name bytea, OUT o_fence bigint, OUT o_holder text, OUT o_since float8, OUT o_remaining float8, OUT o_waiters bigint
) AS $locks$
BEGIN
  SELECT fence, holder, ${epochMs('since')}, ${epochMs('(blocked_until - clock_timestamp())')}
  INTO o_fence, o_holder, o_since, o_remaining
  FROM ${to.locks} WHERE name = p_name AND blocked_until > clock_timestamp();
  SELECT count(*) INTO o_waiters FROM ${to.waiters}
  WHERE name = p_name AND NOT pg_try_advisory_xact_lock_shared(listener);
END`),
    // A function, since a standby refuses any statement that names an unlogged table, with an error that says little.
    plpgsql(`${to.waiting}(p_name bytea) RETURNS text AS $locks$
BEGIN
  RETURN (
    SELECT json_agg(json_build_array(holder, ${epochMs('since')}) ORDER BY position)::text FROM (
      SELECT holder, position, since FROM ${to.waiters}
      WHERE name = p_name AND NOT pg_try_advisory_xact_lock_shared(listener) ORDER BY position LIMIT 100
    ) AS waiting
  );
END`),
  ]
}
