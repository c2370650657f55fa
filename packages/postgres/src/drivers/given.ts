// What a program may pass, described by what is used of it: its types do not need both libraries to be installed.

/** A `Pool` of `pg`. */
export interface PgPool {
  connect(): Promise<object>
  readonly options: object
  readonly totalCount: number
  readonly idleCount: number
  readonly waitingCount: number
}

/** What `postgres()` of the package `postgres` returns: a function, usually called `sql`. */
export interface PostgresJs {
  begin(...call: never[]): Promise<unknown>
  reserve(): Promise<object>
  listen(...call: never[]): Promise<unknown>
  end(...call: never[]): Promise<unknown>
  readonly options: object
}

/** A client, a pool or a transaction of either library, for one statement. */
export type Queries =
  | { query(text: string, values: unknown[]): Promise<{ readonly rows: readonly unknown[] }> }
  | { unsafe(text: string, values: (Buffer | string)[]): PromiseLike<readonly unknown[]> }
