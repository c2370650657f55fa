import type { AdapterFactory } from '@locks/core/adapter'
import { advisoryAdapter } from './advisory.ts'
import type { AdvisoryCapabilities } from './advisory.ts'
import type { PostgresOptions } from './option-table.ts'
import { settle } from './options.ts'
import { rowAdapter } from './row.ts'
import type { RowCapabilities } from './row.ts'
import type { UniqueKeyCapabilities } from './unique-key.ts'
import { uniqueKeyAdapter } from './unique-key.ts'

export type { AdvisoryCapabilities } from './advisory.ts'
export type { RowCapabilities } from './row.ts'
export type { UniqueKeyCapabilities } from './unique-key.ts'
export type { PgPool, PostgresJs, Queries } from './drivers/given.ts'
export { admitFence, fenced } from './guard.ts'
export type { FencePieces } from '@locks/sql'
export { migrate, migrationSql, prune } from './migrate.ts'
export type { MigrateOptions } from './migrate.ts'
export type {
  AdvisoryOptions,
  ConnectionOptions,
  Library,
  TableOptions,
  PostgresOptions,
  RowOptions,
  SharedOptions,
  Strategy,
  UniqueKeyOptions,
} from './option-table.ts'

/** Locks in PostgreSQL, shared by all clients of the same tables. Connects on first use. */
export function postgres(
  options: PostgresOptions<'row'> & { readonly strategy: 'row' },
): AdapterFactory<RowCapabilities>
export function postgres(
  options: PostgresOptions<'advisory'> & { readonly strategy: 'advisory' },
): AdapterFactory<AdvisoryCapabilities>
export function postgres(options: PostgresOptions<'unique-key'>): AdapterFactory<UniqueKeyCapabilities>
export function postgres(options: PostgresOptions): AdapterFactory {
  // Not a copy of a text, which would be an object of its letters.
  return fromConfig(typeof options === 'object' ? { ...options } : options)
}

const adapters = { 'unique-key': uniqueKeyAdapter, row: rowAdapter, advisory: advisoryAdapter }

/** For config: `{ adapter: '@locks/postgres', … }` or `postgres://…?strategy=row`. */
export function fromConfig(options: Readonly<Record<string, unknown>>): AdapterFactory {
  const settings = settle(options)
  return (host) => adapters[settings.strategy](settings, host)
}
