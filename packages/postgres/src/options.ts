import {
  invalidOption,
  isRecord,
  plainUrl,
  queryOptions,
  settleOptions,
  urlOf,
  wrongOption,
} from '@locks/core/adapter'
import type { Settled } from '@locks/core/adapter'
import { shownUrl } from '@locks/sql'
import type { Address, SqlErrors } from '@locks/sql'
import type { ClientConfig, Pool } from 'pg'
import { errors } from './errors.ts'
import { declared } from './option-table.ts'
import type { PlaceOptions } from './option-table.ts'

export interface Place {
  readonly schema: string
  readonly table: string
}

export interface Settings extends Omit<Settled<typeof declared.options>, 'url' | 'pool'> {
  readonly pool: Pool | undefined
  /** For connections that the adapter opens itself. */
  readonly config: ClientConfig
  /** Errors that say where the database is. */
  readonly errors: SqlErrors
}

/** Parameters of a URL that are for `pg` itself, or that it passes over: hosting companies have them in their URLs. */
const passedOn = new Set([
  'application_name',
  'channel_binding',
  'client_encoding',
  'connect_timeout',
  'gssencmode',
  'host',
  'options',
  'ssl',
  'sslcert',
  'sslkey',
  'sslmode',
  'sslnegotiation',
  'sslrootcert',
  'target_session_attrs',
  'uselibpqcompat',
])

export function settle(options: unknown): Settings {
  const url = urlOf(declared, options)
  const parsed = url === undefined ? undefined : parseUrl(url)
  const { url: _, pool, ...rest } = settleOptions(declared, options, parsed?.extra)
  if (parsed !== undefined) return { ...rest, pool: undefined, ...at(parsed.config, rest) }
  if (!isPool(pool)) throw wrongOption(declared, 'pool', pool)
  if ('binary' in pool.options && pool.options.binary === true)
    throw invalidOption(declared, 'pool must not have binary: rows are read as text')
  // The pool hides its password from copies.
  const config = { ...pool.options, password: pool.options.password }
  return { ...rest, pool, ...at(config, rest) }
}

function at(config: ClientConfig, { schema, table }: Place): Pick<Settings, 'config' | 'errors'> {
  const shown = {
    schema: schema === schemaOption.default ? undefined : schema,
    table: table === tableOption.default ? undefined : table,
  }
  return { config, errors: errors.at(shownUrl('postgres', addressOf(config), shown)) }
}

/** Takes our own parameters out of the URL; the text may hold a password and is never shown. */
function parseUrl(url: string): { config: ClientConfig; extra: ReturnType<typeof queryOptions> } {
  const plain = plainUrl(url)
  if (!/^postgres(ql)?:/.test(plain) || !URL.canParse(plain)) throw wrongOption(declared, 'url')
  const parsed = new URL(plain)
  const extra = queryOptions(
    declared,
    [...parsed.searchParams].filter(([key]) => !passedOn.has(key)),
  )
  for (const key of Object.keys(extra)) parsed.searchParams.delete(key)
  return { config: { connectionString: parsed.href }, extra }
}

/** A pool of the program's may have any text there that `pg` understands, and some that it does not. */
function addressOf({ connectionString, ...config }: ClientConfig): Address {
  if (connectionString === undefined) return config
  try {
    const { username, hostname, port, pathname } = new URL(connectionString)
    return {
      user: decodeURIComponent(username),
      host: hostname.replace(/^\[(.*)\]$/, '$1'),
      port: port === '' ? undefined : port,
      database: decodeURIComponent(pathname.slice(1)),
    }
  } catch {
    return {}
  }
}

/** Of options that name the tables and nothing else. */
export function placeOf({ schema, table }: PlaceOptions): Place {
  return settleOptions(placeTable, { schema, table })
}

const { schema: schemaOption, table: tableOption } = declared.options
const placeTable = { ...declared, options: { schema: schemaOption, table: tableOption } }

function isPool(value: unknown): value is Pool {
  if (!isRecord(value)) return false
  return typeof value['connect'] === 'function' && isRecord(value['options']) && 'totalCount' in value
}
