import { MIGRATE, POOL_ENDED, sqlErrors } from '@locks/sql'
import type { SqlErrors } from '@locks/sql'

/** The statement was rolled back as a whole, so it can simply be run again. */
const transient: ReadonlySet<number> = new Set([
  1213, // deadlock
  1205, // lock wait timeout
  3572, // a row is locked, and the statement does not wait
  1020, // record has changed since last read: innodb_snapshot_isolation
])

/** No retry mends these: the server refuses this user, or tables are missing or may not be used. */
const setUp: ReadonlyMap<number | string, string> = new Map<number | string, string>([
  [1045, 'the server refuses the user or the password, so no lock can be acquired; correct them in the url'],
  [1698, 'the server refuses the user or the password, so no lock can be acquired; correct them in the url'],
  [
    1251,
    'this client lacks the authentication method of the user; give the user another, or use another user',
  ],
  [
    1524,
    'the server lacks the authentication method of the user; give the user another, or use another user',
  ],
  [3159, 'the server asks for TLS, so no lock can be acquired; add ?ssl=true to the url'],
  [
    'HANDSHAKE_NO_SSL_SUPPORT',
    'the server does not support TLS; turn it on there, or remove ssl from the url',
  ],
  POOL_ENDED,
  [1820, 'the password has expired, so no lock can be acquired; set a new one'],
  [1862, 'the password has expired, so no lock can be acquired; set a new one'],
  [3118, 'the account is locked, so no lock can be acquired; unlock it, or use another in the url'],
  [4151, 'the account is locked, so no lock can be acquired; unlock it, or use another in the url'],
  [1146, `a table is missing; ${MIGRATE}`],
  [1049, `the database is missing; correct the url, or create the database and ${MIGRATE}`],
  [1046, 'name a database in the url, or a schema'],
  [1054, `the tables have another version; ${MIGRATE}`],
  [1048, `sql_mode has SIMULTANEOUS_ASSIGNMENT, or the tables are incomplete; ${MIGRATE}`],
  [1044, 'the user may not use this database; grant it the rights, or correct the url'],
  [1142, 'the user may not use the tables; grant it SELECT, INSERT, UPDATE and DELETE on them'],
  [1143, 'the user may not use some columns; grant it SELECT, INSERT, UPDATE and DELETE on the tables'],
  [1227, 'the user lacks a privilege; grant the one that the server names'],
  [1095, 'the user may not end connections of other users; grant CONNECTION ADMIN'],
  [1665, 'binlog_format STATEMENT does not allow READ COMMITTED, which locks need; set it to ROW or MIXED'],
])

/** Worth another try: a replica may become the primary, a node may join its cluster. */
const mayPass: ReadonlyMap<number, string> = new Map([
  // Users may be allowed by the name of their host: the server forgets that name while its DNS fails.
  [1130, 'it refuses this host; allow it for the user in the url, or check the DNS of the server'],
  [1290, 'it is a replica, or in maintenance; connect to the primary'],
  // Raised by our own statements, see `onPrimary`.
  [1242, 'read_only is on here; connect to the primary'],
  [1836, 'it is a replica, or in maintenance; connect to the primary'],
  [1792, 'transactions are read-only by default; set transaction_read_only = 0 for this user'],
  [1047, 'this node has lost its cluster, or has not joined it; connect to a node of the cluster'],
])

/** Another transaction has locked the row: MariaDB, then MySQL. */
export const rowLocked: ReadonlySet<number> = new Set([1205, 3572])

export const errors: SqlErrors = sqlErrors({
  adapter: '@locks/mysql',
  server: 'MySQL',
  /** The server's error number comes last. Messages change with the locale. */
  codesOf: (error) => ({
    ...('code' in error && typeof error.code === 'string' && { code: error.code }),
    // mysql2 notices this itself.
    ...(error.message === 'Pool is closed.' && { code: 'POOL_ENDED' }),
    ...('errno' in error && typeof error.errno === 'number' && { errno: error.errno }),
  }),
  advice: setUp,
  ifItLasts: mayPass,
  transient,
  /** MySQL 8 reports the database where it is missing too. */
  missing: new Set([1146, 1049]),
  /** Also a column that is missing, and a view. */
  otherTables: new Set([1146, 1049, 1054, 1288, 1471]),
  forbidden: new Set([1044, 1142, 1227]),
})
