import type { SqlErrors } from './errors.ts'

/** How tables are created on first use. */
export interface TableCreation {
  /**
   * Creates the tables as `migrate` does, on a separate connection and never beside another migration, if the schema
   * has none of them. Resolves with whether it now has them all. `false`: tables of an earlier version were left
   * unchanged, since other clients may use them. Stops at once when `closing` is aborted.
   */
  create(closing: AbortSignal): Promise<boolean>
  /** The SQL of `migrate`. */
  sql(): string
}

/** Runs `look`, which reads a table. If that is missing, creates the tables and runs `look` again. */
export async function creatingTables<T>(
  look: () => Promise<T>,
  creation: { readonly create: () => Promise<boolean>; readonly sql: () => string } | undefined,
  errors: SqlErrors,
): Promise<T> {
  try {
    return await look()
  } catch (error) {
    if (creation === undefined || !errors.isMissing(error)) throw error
    const created = await creation.create().catch((reason: unknown) => {
      throw errors.isForbidden(reason)
        ? errors.notCreated(reason, creation.sql())
        : errors.toLockError(reason)
    })
    if (!created) throw error
  }
  return look()
}
