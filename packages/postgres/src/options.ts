import {
  invalidOption,
  isWhole,
  plainUrl,
  queryOptions,
  settleOptions,
  urlOf,
  wrongOption,
} from '@locks/core/adapter'
import type { Settled } from '@locks/core/adapter'
import { shownUrl } from '@locks/sql'
import type { Address, SqlErrors } from '@locks/sql'
import type { GivenPool, Target } from './drivers/driver.ts'
import { givenPgPool, isPgPool, readsBinary, settingsOf } from './drivers/pg-pool.ts'
import { addressOf, isPostgresJs } from './drivers/postgres-js-given.ts'
import { errors } from './errors.ts'
import { declared } from './option-table.ts'
import type { TableOptions } from './option-table.ts'

export interface Tables {
  readonly schema: string
  readonly table: string
}

export interface Settings extends Omit<Settled<typeof declared.options>, 'url' | 'pool'> {
  /** Where single statements run, if not on connections of the adapter. */
  readonly pool: GivenPool | undefined
  /** For connections that the adapter opens itself. */
  readonly config: Target
  /** Errors that say where the database is. */
  readonly errors: SqlErrors
}

/** Parameters of a URL that are for the client library. Hosting companies have them in URLs. */
const passedOn: readonly string[] = [
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
]

/**
 * What neither library does, or not for every value: these ask for nothing else. `channel_binding` is passed over:
 * hosting companies have `require` in their URLs.
 */
const done = new Map([['gssencmode', ['disable', 'allow', 'prefer']]])

/** `pg` connects to the one server of the URL. Locks work on a primary only, so these need no choice. */
const attributes = ['any', 'read-write', 'primary', 'prefer-standby']

const LONGEST_CONNECT_S = 3_600

export function settle(options: unknown): Settings {
  const url = urlOf(declared, options)
  const parsed = url === undefined ? undefined : parseUrl(url)
  const { url: _, pool, ...rest } = settleOptions(declared, options, parsed?.extra)
  if (parsed !== undefined) {
    checkPassedOn(new URL(parsed.href).searchParams, rest.library === 'postgres')
    const config = { library: rest.library, url: parsed.href }
    return { ...rest, pool: undefined, config, ...at(addressIn(parsed.href), rest) }
  }
  if (isPostgresJs(pool)) {
    const config = { library: 'postgres', like: pool.options } as const
    return { ...rest, pool: undefined, config, ...at(addressOf(pool), rest) }
  }
  if (!isPgPool(pool)) throw wrongOption(declared, 'pool', pool)
  if (readsBinary(pool)) throw invalidOption(declared, 'pool must not have binary: rows are read as text')
  const { connectionString } = pool.options
  const address = connectionString === undefined ? pool.options : addressIn(connectionString)
  const config = { library: 'pg', like: settingsOf(pool) } as const
  return { ...rest, pool: givenPgPool(pool), config, ...at(address, rest) }
}

function at(address: Address, { schema, table }: Tables): Pick<Settings, 'errors'> {
  const shown = {
    schema: schema === schemaOption.default ? undefined : schema,
    table: table === tableOption.default ? undefined : table,
  }
  return { errors: errors.at(shownUrl('postgres', address, shown)) }
}

/** Takes our own parameters out of the URL; the text may hold a password and is never shown. */
function parseUrl(url: string): { href: string; extra: ReturnType<typeof queryOptions> } {
  const plain = plainUrl(url)
  // What follows would be lost.
  if (plain.includes('#'))
    throw invalidOption(declared, 'url must not have a #; write %23 for one in a password')
  if (!/^postgres(ql)?:/.test(plain) || !URL.canParse(plain)) throw wrongOption(declared, 'url')
  const parsed = new URL(plain)
  const extra = queryOptions(declared, parsed.searchParams, passedOn)
  for (const key of Object.keys(extra)) parsed.searchParams.delete(key)
  return { href: parsed.href, extra }
}

/** Refuses what the library would pass over silently. */
function checkPassedOn(query: URLSearchParams, choosesServer: boolean): void {
  const values = choosesServer ? done : new Map([...done, ['target_session_attrs', attributes]])
  for (const [key, fine] of values) {
    const value = query.get(key)
    if (value !== null && !fine.includes(value))
      throw invalidOption(
        declared,
        `${key}=${value} in url asks for what is not done; remove it, or use one of ${fine.join(', ')}`,
      )
  }
  const seconds = query.get('connect_timeout')
  if (seconds !== null && !(/^\d+$/.test(seconds) && isWhole(Number(seconds), [1, LONGEST_CONNECT_S])))
    throw invalidOption(
      declared,
      `connect_timeout in url must be a whole number of seconds from 1 to ${LONGEST_CONNECT_S}`,
    )
}

/** A pool of the program may have any text there that `pg` understands, and some that it does not. */
function addressIn(url: string): Address {
  try {
    const { username, hostname, port, pathname } = new URL(url)
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
export function tablesOf(options: TableOptions): Tables {
  return settleOptions(placeTable, options)
}

const { schema: schemaOption, table: tableOption } = declared.options
const placeTable = { ...declared, options: { schema: schemaOption, table: tableOption } }
