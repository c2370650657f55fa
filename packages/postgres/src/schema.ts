import { sqlProofOf, sqlTagOf } from './messages.ts'
import type { Tables } from './options.ts'
import { holdFunctions } from './schema-holds.ts'
import { durable, fresh, later, ms, plpgsql } from './schema-parts.ts'
import { pruneFunctions, upgrade } from './schema-upkeep.ts'
import { epochMs, living, namesOf } from './sql.ts'

/** The schema of strategy `unique-key`. Can be run again, also over the schema of an earlier version. */
export function uniqueKeySchema(tables: Tables): readonly string[] {
  const to = namesOf(tables)
  const tellFirst = (lookInMs: string): string => `v_waiter := ${to.first}(p_name);
  IF v_waiter.attempt IS NOT NULL THEN
    PERFORM pg_notify('locks_' || v_waiter.listener,
      concat_ws(' ', 'next', ${sqlTagOf('v_waiter.attempt')}, ${lookInMs}));
  END IF;`
  return [
    // The row of the empty name, which no lock has, keeps the highest fence that was ever pruned. `queued`
    // says that there may be waiters; a release reads it again if the row changed while the release waited for it.
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
    // Unlogged: after a crash of the server every waiter has lost its connection and asks again.
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
  since timestamptz DEFAULT clock_timestamp(),
  PRIMARY KEY (name, position)
)`,
    ...upgrade(tables),
    // The caller of these has locked the row of the name. Its later statements see everything committed before that,
    // so no waiter is overlooked.
    plpgsql(`${to.first}(p_name bytea) RETURNS ${to.waiters} AS $locks$
DECLARE
  v_waiter ${to.waiters}%ROWTYPE;
BEGIN
  LOOP
    SELECT * INTO v_waiter FROM ${to.waiters} WHERE name = p_name ORDER BY position LIMIT 1;
    -- A key that can be locked belongs to a listener that is gone; its waiter is gone too. All of these go at once:
    -- each key locked here would take an entry of the server's lock table.
    IF NOT FOUND OR NOT pg_try_advisory_xact_lock_shared(v_waiter.listener) THEN
      RETURN v_waiter;
    END IF;
    WITH ${living} DELETE FROM ${to.waiters} WHERE name = p_name AND listener NOT IN (SELECT key FROM living);
  END LOOP;
END`),
    plpgsql(`${to.passOn}(p_name bytea, p_self text, p_tell boolean) RETURNS void AS $locks$
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
    -- No waiter can be notified, so none is granted a lock that it would not know of. Waiters ask again by themselves.
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
    v_fields := concat_ws(' ', 'granted', ${sqlTagOf('v_waiter.attempt')}, v_fence, v_ttl,
      floor(${epochMs('v_now')})::bigint);
    PERFORM pg_notify('locks_' || v_waiter.listener,
      concat_ws(' ', v_fields, ${sqlProofOf('v_fields', 'v_waiter.secret')}));
  END IF;
  -- The next in line looks when the claim may have expired unused.
  ${tellFirst('v_ttl')}
END`),
    plpgsql(`${to.attempt}(
  p_name bytea, p_attempt text, p_holder text, p_ttl int, p_delay int, p_claim int, p_listener bigint,
  p_secret text, p_tell boolean,
  OUT o_granted boolean, OUT o_fence bigint, OUT o_holder text, OUT o_since float8,
  OUT o_remaining float8, OUT o_clock float8,
  OUT o_first boolean
) AS $locks$
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
        p_name, coalesce((SELECT fence FROM ${to.locks} WHERE name = ''), 0) + 1, p_attempt, p_holder,
        clock_timestamp(), clock_timestamp() + ${ms('p_ttl')}, clock_timestamp() + ${ms('(p_ttl + p_delay)')}
      ) ON CONFLICT (name) DO NOTHING RETURNING fence INTO o_fence;
      IF FOUND THEN
        -- If the name was pruned in between, its stored fence is visible only now.
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
      -- The first to come after an expiry serves the queue.
      PERFORM ${to.passOn}(p_name, p_attempt, p_tell);
      v_passed := true;
    ELSIF v_lock.attempt = p_attempt THEN
      -- Its own hold that is over was never answered, or it would not ask again: no client acts under it.
      UPDATE ${to.locks} SET fence = fence + 1, holder = p_holder, since = clock_timestamp(),
        ${later('p_ttl', 'p_delay')} WHERE name = p_name RETURNING fence INTO o_fence;
      EXIT;
    ELSIF v_lock.attempt IS NOT NULL THEN
      o_granted := false;
      o_fence := v_lock.fence;
      o_holder := v_lock.holder;
      o_since := ${epochMs('v_lock.since')};
      o_remaining := ${epochMs('(v_lock.blocked_until - clock_timestamp())')};
      IF p_listener IS NOT NULL THEN
        UPDATE ${to.locks} SET queued = true WHERE name = p_name AND NOT queued;
        -- The row of the name is locked, so no other waiter gets the same position.
        INSERT INTO ${to.waiters} (name, position, attempt, holder, ttl_ms, delay_ms, claim_ms, listener, secret)
        VALUES (p_name, (SELECT coalesce(max(position), 0) + 1 FROM ${to.waiters} WHERE name = p_name),
          p_attempt, p_holder, p_ttl, p_delay, p_claim, p_listener, p_secret)
        ON CONFLICT (attempt) DO UPDATE SET listener = p_listener, secret = p_secret;
        o_first := (${to.first}(p_name)).attempt = p_attempt;
      END IF;
      -- A crash cannot undo a "busy", but it could undo a fence that was passed on.
      IF NOT v_passed THEN
        PERFORM set_config('synchronous_commit', 'off', true);
      END IF;
      EXIT;
    END IF;
  END LOOP;
  o_clock := ${epochMs('clock_timestamp()')};
END`),
    plpgsql(`${to.release}(p_name bytea, p_attempt text, p_tell boolean) RETURNS text AS $locks$
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
END`),
    plpgsql(`${to.withdraw}(p_name bytea, p_attempt text, p_tell boolean) RETURNS void AS $locks$
DECLARE
  v_lock ${to.locks}%ROWTYPE;
  v_waiter ${to.waiters}%ROWTYPE;
BEGIN
  ${fresh}
  -- Locked in this order everywhere: the row of the name, then its waiters.
  SELECT * INTO v_lock FROM ${to.locks} WHERE name = p_name FOR UPDATE;
  DELETE FROM ${to.waiters} WHERE attempt = p_attempt AND name = p_name;
  IF v_lock.attempt = p_attempt THEN
    PERFORM ${to.passOn}(p_name, NULL, p_tell);
  ELSIF FOUND AND p_tell THEN
    -- The new first in line watches for the end of the hold.
    ${tellFirst(`greatest(0, ceil(${epochMs('(v_lock.blocked_until - clock_timestamp())')}))::bigint`)}
  END IF;
END`),
    ...holdFunctions(tables),
    ...pruneFunctions(tables),
  ]
}
