import type { PoolUse } from '@locks/sql'
import type { ConnectionOptions, Pool } from 'mysql2'
import type { Pool as PromisePool } from 'mysql2/promise'
import { errors } from './errors.ts'

export function isPool(value: unknown): value is Pool | PromisePool {
  return (
    typeof value === 'object' &&
    value !== null &&
    'getConnection' in value &&
    typeof value.getConnection === 'function' &&
    'execute' in value
  )
}

export function promised(pool: Pool | PromisePool): PromisePool {
  return isCallbackPool(pool) ? pool.promise() : pool
}

function isCallbackPool(pool: Pool | PromisePool): pool is Pool {
  return 'promise' in pool && typeof pool.promise === 'function'
}

function field(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && key in value ? Reflect.get(value, key) : undefined
}

/** How many connections of the program's pool are idle; 0 where it does not say. */
export function freeIn(pool: Pool | PromisePool): number {
  const inner = field(pool, '_freeConnections') === undefined ? field(pool, 'pool') : pool
  const free = field(field(inner, '_freeConnections'), 'length')
  return typeof free === 'number' ? free : 0
}

/** A pool that does not say how many connections it has is never full. */
export function useOf(pool: Pool | PromisePool): PoolUse {
  const inner = field(pool, 'config') === undefined ? field(pool, 'pool') : pool
  const max = Number(field(field(inner, 'config'), 'connectionLimit'))
  const taken = field(field(inner, '_allConnections'), 'length')
  // A limit of 0 means no limit.
  return { max, full: max > 0 && typeof taken === 'number' && taken >= max && freeIn(pool) === 0 }
}

const copied = [
  'host',
  'port',
  'user',
  'password',
  'password1',
  'password2',
  'password3',
  'passwordSha1',
  'database',
  'socketPath',
  'stream',
  'ssl',
  'authPlugins',
  'enableCleartextPlugin',
]

/** How the program's pool connects, for connections that the adapter opens beside it. */
export function configOf(pool: Pool | PromisePool): ConnectionOptions {
  const inner = field(pool, 'config') === undefined ? field(pool, 'pool') : pool
  const config = field(field(inner, 'config'), 'connectionConfig')
  if (config === undefined) throw errors.invalid('pool must be a pool of mysql2')
  const entries = copied.map((key) => [key, field(config, key)] as const)
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined && value !== false))
}
