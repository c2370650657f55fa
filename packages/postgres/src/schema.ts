import type { Place } from './options.ts'
import { epochMs, living, namesOf } from './sql.ts'

/** Everything of strategy `unique-key`. May be run again, and over what an earlier version made. */
export function uniqueKeySchema(place: Place): readonly string[] {
  const to = namesOf(place)
  const ms = (what: string): string => `${what} * interval '1 millisecond'`
  // Whoever asks again may have been overtaken by its own later request: the end of a hold is never brought forward.
  const later = (ttl: string, delay: string): string =>
    `expires_at = greatest(expires_at, clock_timestamp() + ${ms(ttl)}),
    blocked_until = greatest(blocked_until, clock_timestamp() + ${ms(`(${ttl} + ${delay})`)})`
  // A fence that a crash could take back is none, nor is a release: whatever the server's default, these are flushed.
  const durable = `IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;`
  return [
    // The row of the empty name, which is no lock's, keeps the highest fence that was ever pruned. `queued` tells a
    // release that somebody may wait: it is read anew when the row changed while the release waited for it.
    `CREATE TABLE IF NOT EXISTS ${to.locks} (
  name bytea PRIMARY KEY,
  fence bigint NOT NULL,
  attempt text,
  holder text,
  since timestamptz,
  expires_at timestamptz,
  blocked_until timestamptz,
  queued boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50)`,
    `INSERT INTO ${to.locks} (name, fence) VALUES ('', 0) ON CONFLICT DO NOTHING`,
    // Unlogged: after a crash of the server every waiter has lost its connection and asks anew.
    `CREATE UNLOGGED TABLE IF NOT EXISTS ${to.waiters} (
  name bytea NOT NULL,
  position bigint GENERATED ALWAYS AS IDENTITY,
  attempt text NOT NULL UNIQUE,
  holder text NOT NULL,
  ttl_ms int NOT NULL,
  delay_ms int NOT NULL,
  claim_ms int NOT NULL,
  listener bigint NOT NULL,
  PRIMARY KEY (name, position)
)`,
    // Whoever calls these has locked the row of the name. Every later statement of the caller sees what
    // others committed before that, so no waiter that was queued is overlooked.
    `CREATE OR REPLACE FUNCTION ${to.first}(p_name bytea) RETURNS ${to.waiters} LANGUAGE plpgsql AS $locks$
DECLARE
  v_waiter ${to.waiters}%ROWTYPE;
BEGIN
  LOOP
    SELECT * INTO v_waiter FROM ${to.waiters} WHERE name = p_name ORDER BY position LIMIT 1;
    -- A key that can be had belongs to a listener that is gone, and its waiter with it.
    IF NOT FOUND OR NOT pg_try_advisory_xact_lock_shared(v_waiter.listener) THEN
      RETURN v_waiter;
    END IF;
    DELETE FROM ${to.waiters} WHERE name = p_name AND position = v_waiter.position;
  END LOOP;
END
$locks$`,
    `CREATE OR REPLACE FUNCTION ${to.passOn}(p_name bytea, p_self text) RETURNS void LANGUAGE plpgsql AS $locks$
DECLARE
  v_waiter ${to.waiters}%ROWTYPE;
  v_now timestamptz;
  v_ttl int;
  v_fence bigint;
BEGIN
  ${durable}
  v_waiter := ${to.first}(p_name);
  IF v_waiter.attempt IS NULL THEN
    UPDATE ${to.locks} SET attempt = NULL, holder = NULL, expires_at = NULL, blocked_until = NULL, queued = false
    WHERE name = p_name AND attempt IS NOT NULL;
    RETURN;
  END IF;
  DELETE FROM ${to.waiters} WHERE name = p_name AND position = v_waiter.position;
  v_now := clock_timestamp();
  v_ttl := least(v_waiter.ttl_ms, v_waiter.claim_ms);
  UPDATE ${to.locks} SET fence = fence + 1, attempt = v_waiter.attempt, holder = v_waiter.holder, since = v_now,
    expires_at = v_now + ${ms('v_ttl')}, blocked_until = v_now + ${ms('(v_ttl + v_waiter.delay_ms)')},
    queued = EXISTS (SELECT FROM ${to.waiters} WHERE name = p_name)
  WHERE name = p_name RETURNING fence INTO v_fence;
  IF v_waiter.attempt IS DISTINCT FROM p_self THEN
    PERFORM pg_notify('locks_' || v_waiter.listener,
      concat_ws(' ', 'granted', v_waiter.attempt, v_fence, v_ttl, ${epochMs('v_now')}));
  END IF;
  -- The next in line looks after a claim that nobody takes up.
  v_waiter := ${to.first}(p_name);
  IF v_waiter.attempt IS NOT NULL THEN
    PERFORM pg_notify('locks_' || v_waiter.listener, concat_ws(' ', 'next', v_waiter.attempt, v_ttl));
  END IF;
END
$locks$`,
    `CREATE OR REPLACE FUNCTION ${to.attempt}(
  p_name bytea, p_attempt text, p_holder text, p_ttl int, p_delay int, p_claim int, p_listener bigint,
  OUT o_granted boolean, OUT o_fence bigint, OUT o_holder text, OUT o_since float8, OUT o_remaining float8, OUT o_clock float8,
  OUT o_first boolean
) LANGUAGE plpgsql AS $locks$
DECLARE
  v_lock ${to.locks}%ROWTYPE;
  v_passed boolean := false;
BEGIN
  ${durable}
  o_granted := true;
  LOOP
    UPDATE ${to.locks} SET fence = fence + 1, attempt = p_attempt, holder = p_holder, since = clock_timestamp(),
      expires_at = clock_timestamp() + ${ms('p_ttl')}, blocked_until = clock_timestamp() + ${ms('(p_ttl + p_delay)')}
    WHERE name = p_name AND attempt IS NULL RETURNING fence INTO o_fence;
    EXIT WHEN FOUND;
    SELECT * INTO v_lock FROM ${to.locks} WHERE name = p_name FOR UPDATE;
    IF NOT FOUND THEN
      INSERT INTO ${to.locks} (name, fence, attempt, holder, since, expires_at, blocked_until) VALUES (
        p_name, coalesce((SELECT fence FROM ${to.locks} WHERE name = ''), 0) + 1, p_attempt, p_holder, clock_timestamp(),
        clock_timestamp() + ${ms('p_ttl')}, clock_timestamp() + ${ms('(p_ttl + p_delay)')}
      ) ON CONFLICT (name) DO NOTHING RETURNING fence INTO o_fence;
      EXIT WHEN FOUND;
    ELSIF v_lock.attempt = p_attempt AND v_lock.expires_at > clock_timestamp() THEN
      UPDATE ${to.locks} SET ${later('p_ttl', 'p_delay')} WHERE name = p_name;
      o_fence := v_lock.fence;
      EXIT;
    ELSIF v_lock.blocked_until <= clock_timestamp() THEN
      -- Whoever comes first after an expiry serves the queue.
      PERFORM ${to.passOn}(p_name, p_attempt);
      v_passed := true;
    ELSIF v_lock.attempt IS NOT NULL THEN
      o_granted := false;
      o_fence := v_lock.fence;
      o_holder := v_lock.holder;
      o_since := ${epochMs('v_lock.since')};
      o_remaining := ${epochMs('(v_lock.blocked_until - clock_timestamp())')};
      IF p_listener IS NOT NULL THEN
        UPDATE ${to.locks} SET queued = true WHERE name = p_name AND NOT queued;
        INSERT INTO ${to.waiters} (name, attempt, holder, ttl_ms, delay_ms, claim_ms, listener)
        VALUES (p_name, p_attempt, p_holder, p_ttl, p_delay, p_claim, p_listener)
        ON CONFLICT (attempt) DO UPDATE SET listener = p_listener;
        o_first := (${to.first}(p_name)).attempt = p_attempt;
      END IF;
      -- To be told "busy" is nothing that a crash could take back; a fence that was passed on is.
      IF NOT v_passed THEN
        PERFORM set_config('synchronous_commit', 'off', true);
      END IF;
      EXIT;
    END IF;
  END LOOP;
  o_clock := ${epochMs('clock_timestamp()')};
END
$locks$`,
    `CREATE OR REPLACE FUNCTION ${to.release}(p_name bytea, p_attempt text) RETURNS text LANGUAGE plpgsql AS $locks$
DECLARE
  v_lock ${to.locks}%ROWTYPE;
BEGIN
  SELECT * INTO v_lock FROM ${to.locks} WHERE name = p_name FOR UPDATE;
  IF NOT FOUND OR v_lock.attempt IS NULL THEN
    RETURN 'released';
  ELSIF v_lock.attempt = p_attempt OR v_lock.blocked_until <= clock_timestamp() THEN
    PERFORM ${to.passOn}(p_name, NULL);
    RETURN 'released';
  END IF;
  RETURN 'not-held';
END
$locks$`,
    `CREATE OR REPLACE FUNCTION ${to.withdraw}(p_name bytea, p_attempt text) RETURNS void LANGUAGE plpgsql AS $locks$
DECLARE
  v_lock ${to.locks}%ROWTYPE;
  v_waiter ${to.waiters}%ROWTYPE;
BEGIN
  -- In this order everywhere: the row of the name, then those who wait for it.
  SELECT * INTO v_lock FROM ${to.locks} WHERE name = p_name FOR UPDATE;
  DELETE FROM ${to.waiters} WHERE attempt = p_attempt AND name = p_name;
  IF v_lock.attempt = p_attempt THEN
    PERFORM ${to.passOn}(p_name, NULL);
  ELSIF FOUND THEN
    -- Whoever is first now looks after the holder.
    v_waiter := ${to.first}(p_name);
    IF v_waiter.attempt IS NOT NULL THEN
      PERFORM pg_notify('locks_' || v_waiter.listener, concat_ws(' ', 'next', v_waiter.attempt,
        greatest(0, ceil(${epochMs('(v_lock.blocked_until - clock_timestamp())')}))));
    END IF;
  END IF;
END
$locks$`,
    `CREATE OR REPLACE FUNCTION ${to.renew}(p_names bytea[], p_attempts text[], p_ttls int[], p_delays int[])
RETURNS SETOF text LANGUAGE plpgsql AS $locks$
BEGIN
  ${durable}
  RETURN QUERY UPDATE ${to.locks} l SET ${later('r.ttl', 'r.delay')}
  FROM unnest(p_names, p_attempts, p_ttls, p_delays) AS r (name, attempt, ttl, delay)
  WHERE l.name = r.name AND l.attempt = r.attempt AND l.expires_at > clock_timestamp()
  RETURNING l.attempt;
END
$locks$`,
    `CREATE OR REPLACE FUNCTION ${to.adopt}(
  p_name bytea, p_from text, p_fence bigint, p_attempt text, p_holder text, p_ttl int, p_delay int
) RETURNS bigint LANGUAGE plpgsql AS $locks$
DECLARE
  v_fence bigint;
BEGIN
  ${durable}
  UPDATE ${to.locks} SET attempt = p_attempt, holder = p_holder, ${later('p_ttl', 'p_delay')}
  WHERE name = p_name AND attempt IN (p_from, p_attempt) AND fence = p_fence AND expires_at > clock_timestamp()
  RETURNING fence INTO v_fence;
  RETURN v_fence;
END
$locks$`,
    `CREATE OR REPLACE FUNCTION ${to.break}(p_name bytea, p_fence bigint) RETURNS text LANGUAGE plpgsql AS $locks$
BEGIN
  PERFORM FROM ${to.locks} WHERE name = p_name AND fence = p_fence AND blocked_until > clock_timestamp() FOR UPDATE;
  IF NOT FOUND THEN
    RETURN 'not-held';
  END IF;
  PERFORM ${to.passOn}(p_name, NULL);
  RETURN 'broken';
END
$locks$`,
    `CREATE OR REPLACE FUNCTION ${to.inspect}(
  p_name bytea, OUT o_fence bigint, OUT o_holder text, OUT o_since float8, OUT o_remaining float8, OUT o_waiters bigint
) LANGUAGE plpgsql AS $locks$
BEGIN
  SELECT fence, holder, ${epochMs('since')}, ${epochMs('(blocked_until - clock_timestamp())')}
  INTO o_fence, o_holder, o_since, o_remaining
  FROM ${to.locks} WHERE name = p_name AND blocked_until > clock_timestamp();
  SELECT count(*) INTO o_waiters FROM ${to.waiters}
  WHERE name = p_name AND NOT pg_try_advisory_xact_lock_shared(listener);
END
$locks$`,
    // With no writer in between, whoever makes a pruned row again starts above the fence that is kept here.
    `CREATE OR REPLACE FUNCTION ${to.prune}(p_older_ms bigint) RETURNS bigint LANGUAGE plpgsql AS $locks$
DECLARE
  v_pruned bigint;
  v_highest bigint;
BEGIN
  ${durable}
  LOCK TABLE ${to.locks} IN EXCLUSIVE MODE;
  WITH ${living} DELETE FROM ${to.waiters} WHERE listener NOT IN (SELECT key FROM living);
  WITH pruned AS (
    DELETE FROM ${to.locks} l WHERE name <> '' AND since < clock_timestamp() - ${ms('p_older_ms')}
      AND (attempt IS NULL OR blocked_until < clock_timestamp() - ${ms('p_older_ms')})
      AND NOT EXISTS (SELECT FROM ${to.waiters} w WHERE w.name = l.name)
    RETURNING fence
  ) SELECT count(*), coalesce(max(fence), 0) INTO v_pruned, v_highest FROM pruned;
  INSERT INTO ${to.locks} AS l (name, fence) VALUES ('', v_highest)
  ON CONFLICT (name) DO UPDATE SET fence = greatest(l.fence, v_highest);
  RETURN v_pruned;
END
$locks$`,
  ]
}
