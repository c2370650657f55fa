import { WRONG_LEVEL } from './errors.ts'
import { sqlProofOf, sqlTagOf } from './messages.ts'
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
  // Functions of several statements rely on each of them seeing what others committed before it.
  const fresh = `IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
    RAISE EXCEPTION 'transactions are % by default', current_setting('transaction_isolation')
      USING ERRCODE = '${WRONG_LEVEL}';
  END IF;`
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
  position bigint NOT NULL,
  attempt text NOT NULL UNIQUE,
  holder text NOT NULL,
  ttl_ms int NOT NULL,
  delay_ms int NOT NULL,
  claim_ms int NOT NULL,
  listener bigint NOT NULL,
  secret text,
  PRIMARY KEY (name, position)
)`,
    ...upgrade(place),
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
    `CREATE OR REPLACE FUNCTION ${to.passOn}(p_name bytea, p_self text, p_tell boolean) RETURNS void LANGUAGE plpgsql AS $locks$
DECLARE
  v_waiter ${to.waiters}%ROWTYPE;
  v_now timestamptz;
  v_ttl int;
  v_fence bigint;
  v_fields text;
BEGIN
  ${durable}
  IF p_tell THEN
    v_waiter := ${to.first}(p_name);
  ELSE
    -- Nobody can be notified, so nobody is given a lock that it would not know of. Waiters ask again by themselves.
    DELETE FROM ${to.waiters} WHERE name = p_name;
  END IF;
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
    v_fields := concat_ws(' ', 'granted', ${sqlTagOf('v_waiter.attempt')}, v_fence, v_ttl, floor(${epochMs('v_now')})::bigint);
    PERFORM pg_notify('locks_' || v_waiter.listener, concat_ws(' ', v_fields, ${sqlProofOf('v_fields', 'v_waiter.secret')}));
  END IF;
  -- The next in line looks after a claim that nobody takes up.
  v_waiter := ${to.first}(p_name);
  IF v_waiter.attempt IS NOT NULL THEN
    PERFORM pg_notify('locks_' || v_waiter.listener, concat_ws(' ', 'next', ${sqlTagOf('v_waiter.attempt')}, v_ttl));
  END IF;
END
$locks$`,
    `CREATE OR REPLACE FUNCTION ${to.attempt}(
  p_name bytea, p_attempt text, p_holder text, p_ttl int, p_delay int, p_claim int, p_listener bigint,
  p_secret text, p_tell boolean,
  OUT o_granted boolean, OUT o_fence bigint, OUT o_holder text, OUT o_since float8, OUT o_remaining float8, OUT o_clock float8,
  OUT o_first boolean
) LANGUAGE plpgsql AS $locks$
DECLARE
  v_lock ${to.locks}%ROWTYPE;
  v_passed boolean := false;
  v_fence bigint;
BEGIN
  ${fresh}
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
      IF FOUND THEN
        -- Had the name been pruned in between, the fence that is kept of it is seen now, and was not before.
        UPDATE ${to.locks} l SET fence = kept.fence + 1 FROM (SELECT fence FROM ${to.locks} WHERE name = '') kept
        WHERE l.name = p_name AND l.fence <= kept.fence RETURNING l.fence INTO v_fence;
        o_fence := coalesce(v_fence, o_fence);
        EXIT;
      END IF;
    ELSIF v_lock.attempt = p_attempt AND v_lock.expires_at > clock_timestamp() THEN
      UPDATE ${to.locks} SET ${later('p_ttl', 'p_delay')} WHERE name = p_name;
      o_fence := v_lock.fence;
      EXIT;
    ELSIF v_lock.blocked_until <= clock_timestamp() THEN
      -- Whoever comes first after an expiry serves the queue.
      PERFORM ${to.passOn}(p_name, p_attempt, p_tell);
      v_passed := true;
    ELSIF v_lock.attempt IS NOT NULL THEN
      o_granted := false;
      o_fence := v_lock.fence;
      o_holder := v_lock.holder;
      o_since := ${epochMs('v_lock.since')};
      o_remaining := ${epochMs('(v_lock.blocked_until - clock_timestamp())')};
      IF p_listener IS NOT NULL THEN
        UPDATE ${to.locks} SET queued = true WHERE name = p_name AND NOT queued;
        -- The row of the name is locked, so nobody else comes to the same position.
        INSERT INTO ${to.waiters} (name, position, attempt, holder, ttl_ms, delay_ms, claim_ms, listener, secret)
        VALUES (p_name, (SELECT coalesce(max(position), 0) + 1 FROM ${to.waiters} WHERE name = p_name),
          p_attempt, p_holder, p_ttl, p_delay, p_claim, p_listener, p_secret)
        ON CONFLICT (attempt) DO UPDATE SET listener = p_listener, secret = p_secret;
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
    `CREATE OR REPLACE FUNCTION ${to.release}(p_name bytea, p_attempt text, p_tell boolean)
RETURNS text LANGUAGE plpgsql AS $locks$
DECLARE
  v_lock ${to.locks}%ROWTYPE;
  v_held boolean;
BEGIN
  ${fresh}
  SELECT * INTO v_lock FROM ${to.locks} WHERE name = p_name FOR UPDATE;
  v_held := v_lock.blocked_until > clock_timestamp();
  IF v_lock.attempt IS NOT NULL AND (v_lock.attempt = p_attempt OR NOT v_held) THEN
    PERFORM ${to.passOn}(p_name, NULL, p_tell);
  END IF;
  RETURN CASE WHEN v_held AND v_lock.attempt = p_attempt THEN 'released' ELSE 'not-held' END;
END
$locks$`,
    `CREATE OR REPLACE FUNCTION ${to.withdraw}(p_name bytea, p_attempt text, p_tell boolean)
RETURNS void LANGUAGE plpgsql AS $locks$
DECLARE
  v_lock ${to.locks}%ROWTYPE;
  v_waiter ${to.waiters}%ROWTYPE;
BEGIN
  ${fresh}
  -- In this order everywhere: the row of the name, then those who wait for it.
  SELECT * INTO v_lock FROM ${to.locks} WHERE name = p_name FOR UPDATE;
  DELETE FROM ${to.waiters} WHERE attempt = p_attempt AND name = p_name;
  IF v_lock.attempt = p_attempt THEN
    PERFORM ${to.passOn}(p_name, NULL, p_tell);
  ELSIF FOUND AND p_tell THEN
    -- Whoever is first now looks after the holder.
    v_waiter := ${to.first}(p_name);
    IF v_waiter.attempt IS NOT NULL THEN
      PERFORM pg_notify('locks_' || v_waiter.listener, concat_ws(' ', 'next', ${sqlTagOf('v_waiter.attempt')},
        greatest(0, ceil(${epochMs('(v_lock.blocked_until - clock_timestamp())')}))::bigint));
    END IF;
  END IF;
END
$locks$`,
    // One row for each renewal. Those whose row somebody else has locked are left out: their outcome is not known.
    `CREATE OR REPLACE FUNCTION ${to.renew}(p_names bytea[], p_attempts text[], p_ttls int[], p_delays int[])
RETURNS TABLE (o_attempt text, o_outcome text) LANGUAGE plpgsql AS $locks$
DECLARE
  v_locked bytea[];
  v_renewed text[];
BEGIN
  ${fresh}
  ${durable}
  v_locked := ARRAY(SELECT l.name FROM ${to.locks} l WHERE l.name = ANY (p_names) FOR UPDATE SKIP LOCKED);
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
END
$locks$`,
    // For a row that was locked: many may ask for it without a pause, so this one stands in line, but not for long.
    `CREATE OR REPLACE FUNCTION ${to.renewLocked}(p_name bytea, p_attempt text, p_ttl int, p_delay int, p_patience int)
RETURNS text LANGUAGE plpgsql AS $locks$
BEGIN
  ${durable}
  PERFORM set_config('lock_timeout', p_patience::text, true);
  UPDATE ${to.locks} SET ${later('p_ttl', 'p_delay')}
  WHERE name = p_name AND attempt = p_attempt AND expires_at > clock_timestamp();
  RETURN CASE WHEN FOUND THEN 'renewed' ELSE 'lost' END;
EXCEPTION WHEN lock_not_available THEN
  RETURN 'unknown';
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
    `CREATE OR REPLACE FUNCTION ${to.break}(p_name bytea, p_fence bigint, p_tell boolean)
RETURNS text LANGUAGE plpgsql AS $locks$
BEGIN
  ${fresh}
  PERFORM FROM ${to.locks} WHERE name = p_name AND fence = p_fence AND blocked_until > clock_timestamp() FOR UPDATE;
  IF NOT FOUND THEN
    RETURN 'not-held';
  END IF;
  PERFORM ${to.passOn}(p_name, NULL, p_tell);
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
    // Some of them, and the highest fence of these, in one transaction: whoever makes a pruned row again starts above it.
    // No lock on the table, and none that others wait for: nobody uses these rows.
    `CREATE OR REPLACE FUNCTION ${to.prune}(p_older_ms bigint, p_most int) RETURNS bigint LANGUAGE plpgsql AS $locks$
DECLARE
  v_names bytea[];
  v_pruned bigint;
  v_highest bigint;
BEGIN
  ${fresh}
  ${durable}
  v_names := ARRAY(
    SELECT name FROM ${to.locks} WHERE name <> '' AND since < clock_timestamp() - ${ms('p_older_ms')}
      AND (attempt IS NULL OR blocked_until < clock_timestamp() - ${ms('p_older_ms')})
      AND NOT EXISTS (SELECT FROM ${to.waiters} w WHERE w.name = ${to.locks}.name)
    LIMIT p_most FOR UPDATE SKIP LOCKED
  );
  -- Somebody may have come to wait before the row was locked; nobody can since.
  WITH pruned AS (
    DELETE FROM ${to.locks} l WHERE name = ANY (v_names) AND NOT EXISTS (SELECT FROM ${to.waiters} w WHERE w.name = l.name)
    RETURNING fence
  ) SELECT count(*), coalesce(max(fence), 0) INTO v_pruned, v_highest FROM pruned;
  IF v_pruned > 0 THEN
    INSERT INTO ${to.locks} AS l (name, fence) VALUES ('', v_highest)
    ON CONFLICT (name) DO UPDATE SET fence = greatest(l.fence, v_highest);
  END IF;
  RETURN v_pruned;
END
$locks$`,
    // Waiters whose listener is gone, of names that nobody has asked for since.
    `CREATE OR REPLACE FUNCTION ${to.pruneWaiters}() RETURNS void LANGUAGE plpgsql AS $locks$
BEGIN
  WITH ${living}, dead AS (
    SELECT attempt FROM ${to.waiters} WHERE listener NOT IN (SELECT key FROM living) FOR UPDATE SKIP LOCKED
  ) DELETE FROM ${to.waiters} w USING dead WHERE w.attempt = dead.attempt;
END
$locks$`,
  ]
}

/** Brings what an earlier version made up to date, and is nothing where that was done. Privileges stay as they are. */
function upgrade(place: Place): readonly string[] {
  const to = namesOf(place)
  const column = (where: string): string =>
    `EXISTS (SELECT FROM pg_attribute WHERE attrelid = '${to.waiters}'::regclass AND ${where})`
  return [
    // The sequence of an identity column is as unlogged as its table, and may be unusable on a standby once promoted.
    `DO $locks$ BEGIN
  IF ${column("attname = 'position' AND attidentity <> ''")} THEN
    ALTER TABLE ${to.waiters} ALTER COLUMN position DROP IDENTITY;
  END IF;
  IF NOT ${column("attname = 'secret'")} THEN
    ALTER TABLE ${to.waiters} ADD COLUMN secret text;
  END IF;
END $locks$`,
    // Left there, a function would stand beside the one that takes more, or returns something else.
    `DROP FUNCTION IF EXISTS ${[
      `${to.passOn}(bytea, text)`,
      `${to.attempt}(bytea, text, text, int, int, int, bigint)`,
      `${to.release}(bytea, text)`,
      `${to.withdraw}(bytea, text)`,
      `${to.break}(bytea, bigint)`,
      `${to.prune}(bigint)`,
    ].join(', ')}`,
    `DO $locks$ BEGIN
  IF (SELECT pg_get_function_result(to_regprocedure('${to.renew}(bytea[], text[], int[], int[])'))) = 'SETOF text' THEN
    DROP FUNCTION ${to.renew}(bytea[], text[], int[], int[]);
  END IF;
END $locks$`,
  ]
}
