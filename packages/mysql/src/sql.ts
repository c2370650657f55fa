export const now = 'UTC_TIMESTAMP(6)'
export const after = (ms: string): string => `${now} + INTERVAL ${ms} * 1000 MICROSECOND`
export const epochMs = (column: string): string =>
  `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${column}) / 1000`
/** The clock in microseconds. */
export const clockUs: string = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${now})`
/**
 * One above the last, and not below the clock: a transaction that holds a lock by itself takes its fence back when it
 * rolls back, and may have used it by then.
 */
export const nextFence = (last: string): string => `GREATEST(${last} + 1, ${clockUs})`

/**
 * Settings for one statement: sql_safe_updates would refuse the batch, and a connection of the program's pool may wait
 * long for a locked row. MariaDB reads the first comment, MySQL the second, which cannot limit the wait for rows: there
 * only the adapter's own connections do.
 */
export const onItsOwn = (verb: string): string =>
  `/*M! SET STATEMENT sql_safe_updates = 0, innodb_lock_wait_timeout = 1 FOR */ ${verb} \
/*+ SET_VAR(sql_safe_updates = 0) */`

/** The echo of a statement, as a number: a string would turn fences into floating-point numbers. */
const echo = 'CAST(? AS SIGNED)'
/** To join with, so that there is always a row for the echo. */
export const once = '(SELECT 1 AS one) o'
/** An older request may arrive late: it must not shorten a hold. */
export const later = (column: string, value: string): string => `${column} = GREATEST(${column}, ${value})`
/**
 * Evaluates to `number`, and fails the statement where `read_only` is on, also for a user that may write there: another
 * server grants the same names. The column keeps a server from evaluating it once for all executions. A replica may
 * repeat statements of its primary, without a user.
 */
export const onPrimary = (number: string, column: string): string =>
  `IF(CONCAT(LEFT(${column}, 0), @@GLOBAL.read_only) NOT IN ('0', 'OFF') AND CURRENT_USER() LIKE '%@_%',
    (SELECT 1 UNION SELECT 2), ${number})`
/** Evaluates to `number`, which must be below 2^52, and returns it with the echo as the insert id. */
export const echoing = (number: string): string => `(LAST_INSERT_ID(${number} + ${echo}) - ${echo})`
