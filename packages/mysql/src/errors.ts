import { isLockError } from '@locks/core/adapter'
import { faultsOf } from '@locks/sql'
import type { Faults } from '@locks/sql'

/** The statement was undone as a whole, so it may simply be run again. */
const transient: ReadonlySet<number> = new Set([
  1213, // deadlock
  1205, // lock wait timeout
  1020, // record has changed since last read: innodb_snapshot_isolation
])

/** What no retry mends: the server refuses this user, or the tables are not there or not ours to use. */
const setUp: ReadonlyMap<number, string> = new Map([
  [1045, 'the server refuses the user or the password, so no lock can be taken; correct them in the url'],
  [1698, 'the server refuses the user or the password, so no lock can be taken; correct them in the url'],
  [1862, 'the password has expired, so no lock can be taken; set a new one'],
  [3118, 'the account is locked, so no lock can be taken; unlock it, or use another in the url'],
  [4151, 'the account is locked, so no lock can be taken; unlock it, or use another in the url'],
  [1146, 'a table is missing; run: npx -p @locks/cli locks migrate URL'],
  [
    1049,
    'the database is missing; correct the url, or create the database and run: npx -p @locks/cli locks migrate URL',
  ],
  [1046, 'name a database in the url, or a schema'],
  [1054, 'the tables are of another version; run: npx -p @locks/cli locks migrate URL'],
  [
    1048,
    'sql_mode has SIMULTANEOUS_ASSIGNMENT, or the tables are not complete; run: npx -p @locks/cli locks migrate URL',
  ],
  [1044, 'the user may not use that database; grant it the rights, or correct the url'],
  [1142, 'the user may not use those tables; grant it SELECT, INSERT, UPDATE and DELETE on them'],
  [1143, 'the user may not use those columns; grant it SELECT, INSERT, UPDATE and DELETE on the tables'],
  [1227, 'the user lacks a right that the server names'],
  [1095, 'the user may not end connections of others; grant CONNECTION ADMIN'],
  [1665, 'binlog_format STATEMENT does not go with READ COMMITTED; use ROW or MIXED'],
])

/** A replica may become the primary, and a node join its cluster: worth another try. */
const mayPass: ReadonlyMap<number, string> = new Map([
  [1290, 'it is a replica, or in maintenance; connect to the primary'],
  [1836, 'it is a replica, or in maintenance; connect to the primary'],
  [1792, 'transactions are read-only by default'],
  [1047, 'this node has lost its cluster, or has not joined it'],
])

/** The server's error number. Messages are for people and change with the locale. */
export function errnoOf(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined
  if (isLockError(error)) return errnoOf(error.cause)
  return 'errno' in error && typeof error.errno === 'number' ? error.errno : undefined
}

export function isTransient(error: unknown): boolean {
  return transient.has(errnoOf(error) ?? 0)
}

export const faults: Faults = faultsOf({
  adapter: '@locks/mysql',
  server: 'MySQL',
  codesOf(error) {
    const errno = errnoOf(error)
    const code =
      error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
    return { ...(code !== undefined && { code }), ...(errno !== undefined && { errno }) }
  },
  adviceOn: (error) => setUp.get(errnoOf(error) ?? 0),
  hintOn: (error) => mayPass.get(errnoOf(error) ?? 0),
})
