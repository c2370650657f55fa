import { invalidOption, plainUrl, queryOptions, settleOptions, urlOf, wrongOption } from '@locks/core/adapter'
import type { Settled } from '@locks/core/adapter'
import { shownUrl } from '@locks/sql'
import type { SqlErrors } from '@locks/sql'
import type { ConnectionOptions as ClientOptions, Pool } from 'mysql2'
import type { Pool as PromisePool } from 'mysql2/promise'
import { errors } from './errors.ts'
import { declared } from './option-table.ts'
import type { TableOptions } from './option-table.ts'
import { configOf, isPool } from './pool.ts'

export interface Tables {
  readonly schema: string | undefined
  readonly table: string
}

export interface Settings extends Omit<Settled<typeof declared.options>, 'url' | 'pool' | 'ssl'> {
  readonly pool: Pool | PromisePool | undefined
  /** For connections that the adapter opens itself. */
  readonly config: ClientOptions
  /** Errors that say where the database is. */
  readonly errors: SqlErrors
}

export function settle(options: unknown): Settings {
  const url = urlOf(declared, options)
  const parsed = url === undefined ? undefined : parseUrl(url)
  const { url: _, ssl: __, pool, ...rest } = settleOptions(declared, options, parsed?.extra)
  if (parsed !== undefined) return { ...rest, pool: undefined, ...at(parsed.config, rest) }
  if (!isPool(pool)) throw wrongOption(declared, 'pool', pool)
  return { ...rest, pool, ...at(configOf(pool), rest) }
}

function at(config: ClientOptions, { schema, table }: Tables): Pick<Settings, 'config' | 'errors'> {
  const shown = { schema, table: table === tableOption.default ? undefined : table }
  return { config, errors: errors.at(shownUrl('mysql', config, shown)) }
}

/** The text may hold a password and is never shown. */
function parseUrl(url: string): { config: ClientOptions; extra: ReturnType<typeof queryOptions> } {
  const plain = plainUrl(url)
  // What follows would be lost.
  if (plain.includes('#'))
    throw invalidOption(declared, 'url must not have a #; write %23 for one in a password')
  if (!/^(mysql|mariadb):/.test(plain) || !URL.canParse(plain)) throw wrongOption(declared, 'url')
  const { hostname, port, username, password, pathname, searchParams } = new URL(plain)
  const database = decoded(pathname.slice(1))
  const extra = queryOptions(declared, searchParams)
  const config: ClientOptions = {
    host: hostname === '' ? 'localhost' : hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? 3306 : Number(port),
    user: decoded(username),
    password: decoded(password),
    ...(database !== '' && { database }),
    ...(extra['ssl'] === true && { ssl: {} }),
  }
  return { config, extra }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw wrongOption(declared, 'url')
  }
}

/** Of options that name the tables and nothing else. */
export function tablesOf(options: TableOptions): Tables {
  return settleOptions(placeTable, options)
}

const { schema: schemaOption, table: tableOption } = declared.options
const placeTable = { ...declared, options: { schema: schemaOption, table: tableOption } }
