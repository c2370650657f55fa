import { verdicts } from '@locks/core/adapter'
import type { Checks } from '@locks/core/adapter'
import { connectionsVerdict, foreignVerdict, SPARE_CONNECTIONS, tableChecks } from '@locks/sql'
import type { TableFacts } from '@locks/sql'
import type { Settings } from './options.ts'
import type { Pooling } from './pooler.ts'

/** What `diagnose` reads: settings of the server by name, and a few facts. */
export interface Facts extends TableFacts {
  readonly settings: ReadonlyMap<string, string>
  readonly pooling: Pooling
  readonly inRecovery: boolean
  readonly connections: number
  /** Entries of the server's lock table that are in use. */
  readonly locks: number
  /** A table or function of another program that has one of our names. */
  readonly foreign: string | undefined
  /** Tables and functions that are missing. */
  readonly missing: readonly string[]
  /** Tables that this role may not read or write. */
  readonly forbidden: readonly string[]
}

const { ok, warning, danger } = verdicts

/** Whether a lock is held by a connection. */
const bySession = ({ strategy }: Pick<Settings, 'strategy'>): boolean => strategy !== 'unique-key'

const OLDEST = 120_000
const LONG_KEEPALIVE_S = 600
const SHORT_STATEMENT_MS = 1_000

export const checks: Checks<Facts, Settings> = {
  'server-version': ({ settings }) => {
    const version = `PostgreSQL ${settings.get('server_version') ?? 'of unknown version'}`
    if (number(settings, 'server_version_num') >= OLDEST) return ok(version)
    return warning(`${version} is older than 12`, 'upgrade the server')
  },

  pooling: ({ pooling }, { strategy, listen }) => {
    if (pooling === 'none') return ok('connections reach the server itself')
    if (pooling === 'session') return ok('a pooler was detected, and it keeps sessions together')
    const message = 'a pooler in transaction mode stands in between'
    if (bySession({ strategy }))
      return warning(message, 'connect directly, or use strategy unique-key with listen: false')
    return listen
      ? warning(`${message}; waiters poll once a second`, 'set listen: false, or connect directly')
      : ok(`${message}; waiters poll`)
  },

  recovery: ({ inRecovery, settings, pooling }, given) => {
    if (inRecovery) return warning('the server is a standby and grants no locks', 'connect to the primary')
    if (settings.get('default_transaction_read_only') !== 'on') return ok('the server accepts writes')
    const message = 'transactions are read-only by default'
    if (setsDefaults(given, pooling))
      return ok(`${message}; connections of the adapter set their own default`)
    return warning(message, 'set default_transaction_read_only = off for this role')
  },

  tables: ({ foreign, missing, forbidden, record, owner }, { schema, table, migrate, strategy }) => {
    if (record === undefined) return ok('no tables are needed without fences')
    if (foreign !== undefined) return foreignVerdict('@locks/postgres', foreign, owner === strategy)
    if (missing.length > 0) {
      const unless = migrate === 'auto' ? ', unless the first acquire may create them all' : ''
      return warning(`missing: ${missing.join(', ')}; no lock can be acquired${unless}`, 'run migrate()')
    }
    if (forbidden.length > 0)
      return warning(
        `this role may not use ${forbidden.join(', ')}; no lock can be acquired`,
        'grant it SELECT, INSERT, UPDATE and DELETE on them, or run migrate() as this role',
      )
    return ok(`the tables of ${schema}.${table} exist`)
  },

  durability: ({ settings }) => {
    if (settings.get('fsync') === 'off')
      return danger('fsync is off: a crash may reset fences that were granted', 'set fsync = on')
    if (settings.get('full_page_writes') === 'off')
      return danger('full_page_writes is off: a crash may damage tables', 'set full_page_writes = on')
    return ok('commits survive a crash')
  },

  'synchronous-commit': ({ settings }) => {
    const mode = settings.get('synchronous_commit') ?? 'unknown'
    const standbys = settings.get('synchronous_standby_names') ?? ''
    if (mode === 'off') return ok('synchronous_commit is off; statements that grant a fence turn it on')
    if (standbys !== '' && (mode === 'local' || mode === 'remote_write'))
      return danger(
        `synchronous_commit is ${mode}: a failover may reset fences that were granted`,
        'set synchronous_commit = on for this role',
      )
    return ok(`synchronous_commit is ${mode}`)
  },

  isolation: ({ settings, pooling }, given) => {
    const level = settings.get('default_transaction_isolation') ?? 'unknown'
    if (level === 'read committed') return ok(`transactions are ${level}`)
    const message = `transactions are ${level} by default`
    if (bySession(given)) return ok(`${message}; this does not matter to strategy ${given.strategy}`)
    if (setsDefaults(given, pooling))
      return ok(`${message}; connections of the adapter set their own default`)
    return warning(
      `${message}: acquires are refused`,
      "set default_transaction_isolation = 'read committed' for this role",
    )
  },

  connections: ({ connections, settings }, { strategy, maxConnections, poolSize }) => {
    const reserved = number(settings, 'superuser_reserved_connections')
    const room = number(settings, 'max_connections') - reserved
    const wanted = poolSize + (bySession({ strategy }) ? maxConnections : 1 + SPARE_CONNECTIONS)
    const lower = bySession({ strategy }) ? 'maxConnections or poolSize' : 'poolSize'
    return connectionsVerdict(connections, room, wanted, lower)
  },

  /** All locks of the server share one table: a full one fails the statements of all clients. */
  'lock-table': ({ locks, settings }, { strategy }) => {
    if (strategy !== 'advisory') return undefined
    const transactions = number(settings, 'max_connections') + number(settings, 'max_prepared_transactions')
    const room = number(settings, 'max_locks_per_transaction') * transactions
    const message = `${locks} of ${room} entries of the server's lock table are in use; a hold takes two`
    if (locks <= room / 2) return ok(message)
    return warning(message, 'raise max_locks_per_transaction, or hold fewer locks')
  },

  'session-timeouts': ({ settings }, { strategy, listen }) => {
    const short = (name: string, below: number): boolean =>
      number(settings, name) > 0 && number(settings, name) < below
    const found = [
      ...(short('statement_timeout', SHORT_STATEMENT_MS) ? ['statement_timeout'] : []),
      // Connections of advisory locks set their own.
      ...(short('idle_session_timeout', Infinity) &&
      (strategy === 'row' || (strategy === 'unique-key' && listen))
        ? ['idle_session_timeout']
        : []),
      ...(short('transaction_timeout', Infinity) && strategy === 'row' ? ['transaction_timeout'] : []),
    ]
    if (found.length === 0) return ok('no server time-out ends holds or waits, which set their own')
    const shown = found.map((name) => `${name} is ${settings.get(name)} ms`)
    return warning(
      `${shown.join(', ')}: this may end statements, waits or holds`,
      `set ${found.map((name) => `${name} = 0`).join(', ')} for this role`,
    )
  },

  keepalives: ({ settings }, { strategy, sessionTtlMs }) => {
    const idle = number(settings, 'tcp_keepalives_idle')
    const timeout = number(settings, 'tcp_user_timeout')
    const shown = `tcp_keepalives_idle is ${idle} s, tcp_user_timeout ${timeout} ms`
    const probesS = number(settings, 'tcp_keepalives_interval') * number(settings, 'tcp_keepalives_count')
    const limitsMs = [...(idle > 0 ? [(idle + probesS) * 1_000] : []), ...(timeout > 0 ? [timeout] : [])]
    if (bySession({ strategy }) && Math.min(...limitsMs) < sessionTtlMs)
      return danger(
        `${shown}: the server may end the connection of a holder that is cut off before its ttl is over, ` +
          'so that another client gets the lock while the holder still relies on it',
        'set tcp_keepalives_idle = 60, tcp_keepalives_interval = 10, tcp_keepalives_count = 3 and ' +
          'tcp_user_timeout = 0 for this role, or lower sessionTtlMs',
      )
    if (idle > 0 && idle <= LONG_KEEPALIVE_S) return ok(shown)
    return warning(
      `${shown}: clients that vanish from the network stay in the queue for long`,
      'set tcp_keepalives_idle = 60, tcp_keepalives_interval = 10 and tcp_keepalives_count = 3',
    )
  },

  ...tableChecks,
}

/** Whether the adapter sets the defaults of its connections: not where a pool or a pooler shares them. */
function setsDefaults({ pool, strategy }: Settings, pooling: Pooling): boolean {
  return strategy === 'unique-key' && pool === undefined && pooling === 'none'
}

/** A numeric setting; 0 where the server has none of that name. */
function number(settings: ReadonlyMap<string, string>, name: string): number {
  return Number(settings.get(name) ?? 0)
}
