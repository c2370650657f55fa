import { WRONG_LEVEL } from './errors.ts'

// Parts that the functions of the schema share.

/** A function that any later version may replace. `text` ends with the function's END. */
export const plpgsql = (text: string): string =>
  `CREATE OR REPLACE FUNCTION ${text}\n$locks$ LANGUAGE plpgsql`

export const ms = (what: string): string => `${what} * interval '1 millisecond'`

/** An older request may arrive late: it must not shorten a hold. */
export const later = (ttl: string, delay: string): string =>
  `expires_at = greatest(expires_at, clock_timestamp() + ${ms(ttl)}),
    blocked_until = greatest(blocked_until, clock_timestamp() + ${ms(`(${ttl} + ${delay})`)})`

/** Functions of several statements rely on each statement seeing what was committed before it. */
export const fresh: string = `IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
    RAISE EXCEPTION 'transactions are % by default', current_setting('transaction_isolation')
      USING ERRCODE = '${WRONG_LEVEL}';
  END IF;`

/** A crash must not undo a fence or a release: these are flushed even where synchronous_commit is off. */
export const durable = `IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;`

/** In a function that prunes: whether it happened long enough ago. */
export const old = (when: string): string => `${when} < clock_timestamp() - ${ms('p_older_ms')}`

/**
 * Deletes a batch and stores its highest fence in one transaction: a row that is made again starts above it. `find`
 * locks the names of the batch, `remove` deletes them and leaves the fences of what it deleted in `pruned`. `check`
 * runs before.
 */
export const pruning = (name: string, counters: string, find: string, remove: string, check = ''): string =>
  plpgsql(`${name}(p_older_ms bigint, p_most int, p_names bytea[] DEFAULT NULL) RETURNS bigint AS $locks$
DECLARE
  v_names bytea[];
  v_pruned bigint;
  v_highest bigint;
BEGIN
  ${check}
  ${durable}
  v_names := ARRAY(
    ${find}
  );
  ${remove} SELECT count(*), coalesce(max(fence), 0) INTO v_pruned, v_highest FROM pruned;
  IF v_pruned > 0 THEN
    INSERT INTO ${counters} AS c (name, fence) VALUES ('', v_highest)
    ON CONFLICT (name) DO UPDATE SET fence = greatest(c.fence, v_highest);
  END IF;
  RETURN v_pruned;
END`)
