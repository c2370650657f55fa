import type { AdapterFactory } from '@locks/core/adapter'
import type { MysqlOptions } from './option-table.ts'
import { settle } from './options.ts'
import { sessionAdapter } from './session.ts'
import type { SessionCapabilities } from './session.ts'
import { uniqueKeyAdapter } from './unique-key.ts'
import type { UniqueKeyCapabilities } from './unique-key.ts'

export { admitFence, fenced } from './guard.ts'
export type { FencePieces } from '@locks/sql'
export type { Executes } from './guard.ts'
export { migrate, migrationSql, prune } from './migrate.ts'
export type { MigrateOptions } from './migrate.ts'
export type {
  ConnectionOptions,
  MysqlOptions,
  TableOptions,
  SessionOptions,
  SharedOptions,
  Strategy,
} from './option-table.ts'
export type { SessionCapabilities } from './session.ts'
export type { UniqueKeyCapabilities } from './unique-key.ts'

/** Locks in MySQL or MariaDB, shared by all clients of the same tables. Connects on first use. */
export function mysql(
  options: MysqlOptions<'row' | 'named'> & { readonly strategy: 'row' | 'named' },
): AdapterFactory<SessionCapabilities>
export function mysql(options: MysqlOptions<'unique-key'>): AdapterFactory<UniqueKeyCapabilities>
export function mysql(options: MysqlOptions): AdapterFactory {
  // Not a copy of a text, which would be an object of its letters.
  return fromConfig(typeof options === 'object' ? { ...options } : options)
}

/** For config: `{ adapter: '@locks/mysql', … }` or `mysql://…?strategy=row`. */
export function fromConfig(options: Readonly<Record<string, unknown>>): AdapterFactory {
  const settings = settle(options)
  const { strategy } = settings
  return (host) =>
    strategy === 'unique-key' ? uniqueKeyAdapter(settings, host) : sessionAdapter(settings, strategy, host)
}
