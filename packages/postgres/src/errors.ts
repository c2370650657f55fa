import { MIGRATE, NAME_TAKEN, POOL_ENDED, sqlErrors } from '@locks/sql'
import type { SqlErrors } from '@locks/sql'

/** Raised by our functions, before they do anything, under an isolation level they cannot work with. */
export const WRONG_LEVEL = 'LK001'

/** Raised by the SQL of a migration, before it does anything, where a table of another program has one of our names. */
export const FOREIGN = 'LK002'

/** The statement was rolled back as a whole, so it can simply be run again. */
const transient: ReadonlySet<string> = new Set([
  '40001', // serialization failure
  '40P01', // deadlock detected
  '55P03', // lock not available: the server's own lock_timeout
  '23505', // unique violation: two sessions made the same row
])

/** No retry mends these: the server refuses this user, or tables are missing or may not be used. */
const setUp: ReadonlyMap<string, string> = new Map([
  [
    '28P01',
    'the server refuses the password, so no lock can be acquired; correct user and password in the url',
  ],
  [
    'NO_PASSWORD',
    'the server wants a password and got none, so no lock can be acquired; give one: postgres://user:password@host',
  ],
  [
    '28000',
    'the server refuses this user, so no lock can be acquired; correct the url, or allow it in pg_hba.conf',
  ],
  ['3D000', `the database is missing; correct the url, or create the database and ${MIGRATE}`],
  ['42P01', `a table is missing; ${MIGRATE}`],
  ['42883', `a function is missing or has another version; ${MIGRATE}`],
  ['3F000', `the schema is missing; ${MIGRATE}`],
  ['42703', `the tables have another version; ${MIGRATE}`],
  [
    '42501',
    'the role lacks a privilege, so no lock can be acquired; grant it SELECT, INSERT, UPDATE and DELETE on the tables',
  ],
  [
    WRONG_LEVEL,
    "locks need read committed transactions; set default_transaction_isolation = 'read committed'",
  ],
  [FOREIGN, NAME_TAKEN],
  POOL_ENDED,
  [
    'NO_TLS',
    'the server does not support TLS, so no lock can be acquired; turn it on there, or correct sslmode',
  ],
  ['26000', 'a pooler does not keep prepared statements; set listen: false'],
  ['42P05', 'a pooler shares prepared statements between clients; set listen: false'],
])

/** Worth another try: a standby may be promoted, a default set back, a row unlocked. */
const mayPass: ReadonlyMap<string, string> = new Map([
  ['25006', 'it is a standby, or read-only by default; connect to the primary'],
  ['55000', 'it is a standby; connect to the primary'],
  [
    '53200',
    'it is out of memory, or its lock table is full; hold fewer locks, or raise max_locks_per_transaction',
  ],
  ['55P03', 'another session has locked the table or a row of it; try again when that is over'],
])

/** `pg` notices these itself, so the errors have no code. */
const uncoded: readonly (readonly [message: RegExp, code: string])[] = [
  [/^SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be/, 'NO_PASSWORD'],
  [/^Cannot use a pool after calling end on the pool/, 'POOL_ENDED'],
  [/^The server does not support SSL connections/, 'NO_TLS'],
]

function codesOf(error: Error): { code?: string } {
  if ('code' in error && typeof error.code === 'string') return { code: error.code }
  const [, code] = uncoded.find(([message]) => message.test(error.message)) ?? []
  return code === undefined ? {} : { code }
}

export const errors: SqlErrors = sqlErrors({
  adapter: '@locks/postgres',
  server: 'PostgreSQL',
  /** SQLSTATE, or the system's code of a socket error. Messages change with the locale. */
  codesOf,
  advice: setUp,
  ifItLasts: mayPass,
  transient,
  missing: new Set(['42P01']),
  /** Also a function that is missing, and something that is not a table. */
  otherTables: new Set(['42P01', '42703', '42804', '42809', '42883']),
  forbidden: new Set(['42501']),
})

type Check = (error: unknown) => boolean

function has(...codes: readonly string[]): Check {
  const wanted = new Set(codes)
  return (error) => errors.has(error, wanted)
}

/** Whether the server itself refused: the connection is still usable. */
export const isRefusal: Check = (error) => error instanceof Error && 'severity' in error

/** The server ended the connection and ran no more statements. */
export const isEnd: Check = has(
  '57P01', // terminated by an administrator
  '57P02', // another process crashed
  '57P05', // idle_session_timeout
  '25P03', // idle_in_transaction_session_timeout
  '25P04', // transaction_timeout
)

/** Whether an earlier statement had failed in a transaction that was still open. */
export const isOfFailedTransaction: Check = has('25P02')

export const isDeadlock: Check = has('40P01')

/** Whether the defaults of the role keep a statement from being run as it has to be. */
export const isOfOtherDefaults: Check = has(WRONG_LEVEL, '25006')

/** The server does not support what was asked for, such as a transaction that writes on a standby. */
export const isUnsupported: Check = has('0A000')

/** Whether a pooler chose a server connection where the statement's name is unknown or taken. Nothing was run. */
export const isOfItsName: Check = has('42P05', '26000')

/** The server's NOTIFY queue is full: a transaction that sends a notification fails when it commits. */
export const isQueueFull: Check = has('54000')

/** The wait was cancelled, timed out or was chosen by the deadlock detector. */
export const isEndOfWait: Check = has('57014', '55P03', '40P01', '40001')
