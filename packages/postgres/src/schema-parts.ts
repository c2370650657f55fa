import { WRONG_LEVEL } from './errors.ts'

// Parts shared by the functions of strategy `unique-key`.

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
