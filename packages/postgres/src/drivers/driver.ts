import type { PoolUse } from '@locks/sql'
import type { Socket } from 'node:net'
import type { Library } from '../option-table.ts'

// What the adapter needs of a client library. Each driver implements it for one library, and only that file imports it.

/** A statement, and the name to prepare it under; undefined where preparing is not worth it. */
export interface Statement {
  readonly name: string | undefined
  readonly text: string
}

/** Values as the server writes them: the program may have changed how its library parses types. */
export type Row = readonly (string | null)[]

/** Where connections of the adapter lead: to a URL, or to where the connections of the program's pool lead. */
export type Target =
  | { readonly library: Library | undefined; readonly url: string }
  | { readonly library: Library; readonly like: object }

/** One connection. It MUST NOT be replaced by another: a hold of `row` is bound to it. */
export interface DriverConnection {
  /** Connects. Called once, before anything else. */
  open(): Promise<unknown>
  /**
   * Runs one statement, after all earlier ones. MUST NOT run it a second time once the server may have run it. Rejects
   * with `severity` when the server refused it, and `code` is the SQLSTATE then.
   */
  query(statement: Statement, values: unknown[], named: boolean): Promise<readonly Row[]>
  /** Sends the statements of `sends` in one packet, if the library can. */
  together<T>(sends: () => T): T
  onNotification(received: (payload: string) => void): void
  /** The backend that was announced when it connected. */
  readonly announcedPid: number | undefined
  /** Undefined where the library does not show it. */
  readonly socket: Socket | undefined
  /** Ends the session in order. */
  end(): Promise<unknown>
  /** Closes the socket, even while it connects, and fails all statements under way. */
  cut(): void
}

export interface ConnectOptions {
  /** Whether statements are sent without waiting for earlier answers. */
  readonly pipeline: boolean
  /** MUST be called when the connection ends, as soon as that can be known. */
  readonly ended: () => void
}

export interface Driver {
  /** A connection that is not open yet. */
  connectionTo(target: Target, options: ConnectOptions): DriverConnection
}

/** A connection of the program's pool, taken for one statement. Its settings are not changed. */
export interface LentConnection {
  query(statement: Statement, values: unknown[], named: boolean): Promise<readonly Row[]>
  /** Whether the last statement was committed. It is not where the program left a transaction open. */
  readonly committed: boolean
  /** Gives it back; `useless` ends it instead. */
  giveBack(useless: boolean): void
}

/** A pool of the program, which the adapter neither opens nor ends. */
export interface GivenPool {
  use(): PoolUse
  /** Whether a connection is free, beyond those that others wait for. */
  hasRoom(): boolean
  take(): Promise<LentConnection>
}
