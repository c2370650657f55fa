import type { PoolUse } from '@locks/sql'
import type { ConnectionOptions, Pool } from 'mysql2'
import type { Pool as PromisePool } from 'mysql2/promise'
import { errors } from './errors.ts'

export function isPool(value: unknown): value is Pool | PromisePool {
  return typeof field(value, 'getConnection') === 'function' && field(value, 'execute') !== undefined
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

/** What the pool, or the pool behind a promise pool, has under `key`. */
function innerOf(pool: Pool | PromisePool, key: string): unknown {
  return field(field(pool, key) === undefined ? field(pool, 'pool') : pool, key)
}

/** How many connections of the program's pool are idle; 0 where it does not say. */
export function freeIn(pool: Pool | PromisePool): number {
  const free = field(innerOf(pool, '_freeConnections'), 'length')
  return typeof free === 'number' ? free : 0
}

/** A pool that does not say how many connections it has is never full. */
export function useOf(pool: Pool | PromisePool): PoolUse {
  const max = Number(field(innerOf(pool, 'config'), 'connectionLimit'))
  const taken = field(innerOf(pool, '_allConnections'), 'length')
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
  const config = field(innerOf(pool, 'config'), 'connectionConfig')
  if (config === undefined) throw errors.invalid('pool must be a pool of mysql2')
  const entries = copied.map((key) => [key, field(config, key)] as const)
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined && value !== false))
}
