import { isRecord } from '@locks/core/adapter'
import type { Address } from '@locks/sql'
import type { PostgresJs } from './given.ts'

/** A transaction or a reserved connection of the library has neither of these. */
const members = ['begin', 'reserve', 'listen', 'end'] as const

export function isPostgresJs(value: unknown): value is PostgresJs {
  if (typeof value !== 'function') return false
  const options: unknown = Reflect.get(value, 'options')
  if (!isRecord(options) || !Array.isArray(options['host'])) return false
  return members.every((member) => typeof Reflect.get(value, member) === 'function')
}

/** For messages. */
export function addressOf({ options }: PostgresJs): Address {
  const first = (key: string): unknown => {
    const value: unknown = Reflect.get(options, key)
    return Array.isArray(value) ? value[0] : value
  }
  return { user: first('user'), host: first('host'), port: first('port'), database: first('database') }
}
