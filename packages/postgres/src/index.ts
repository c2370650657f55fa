import type { AdapterFactory } from '@locks/core'
import { settle } from './options.ts'
import type { PostgresOptions } from './options.ts'
import type { UniqueKeyCapabilities } from './unique-key.ts'
import { uniqueKeyAdapter } from './unique-key.ts'

export { migrate, migrationSql, prune } from './migrate.ts'
export type { MigrateOptions } from './migrate.ts'
export type {
  ConnectionOptions,
  PlaceOptions,
  PostgresOptions,
  RowOptions,
  Strategy,
  UniqueKeyOptions,
} from './options.ts'

/** Locks in PostgreSQL, for everyone who reaches the same tables. Connects when it is first used. */
export function postgres(options: PostgresOptions): AdapterFactory<UniqueKeyCapabilities> {
  const settings = settle({ ...options })
  return (host) => uniqueKeyAdapter(settings, host)
}

export function fromConfig(options: Readonly<Record<string, unknown>>): AdapterFactory {
  const settings = settle(options)
  return (host) => uniqueKeyAdapter(settings, host)
}
