import type { Finding } from '@locks/core/adapter'
import { leftoversFinding, otherStrategy, SPARE_CONNECTIONS } from '@locks/sql'
import type { Leftovers } from '@locks/sql'
import type { Settings } from './options.ts'
import type { Pooling } from './pooler.ts'
import { namesOf } from './sql.ts'

/** What `diagnose` reads: settings by name, as the server shows them, and a few facts beside. */
export interface Facts {
  readonly settings: ReadonlyMap<string, string>
  readonly roundTripMs: number
  readonly pooling: Pooling
  readonly inRecovery: boolean
  readonly connections: number
  /** Tables and functions that are not there. */
  readonly missing: readonly string[]
  /** Tables that this role may not read or write. */
  readonly forbidden: readonly string[]
  /** The strategy that the locks belong to, where one has been used and can be read. */
  readonly owner: string | undefined
  /** Free names of which a row is kept, and how old the oldest is. Undefined where that cannot be read. */
  readonly leftovers: Leftovers | undefined
}

type Check = (facts: Facts, settings: Settings) => Omit<Finding, 'check'>

const ok = (message: string): Omit<Finding, 'check'> => ({ level: 'ok', message })
const warning = (message: string, advice: string): Omit<Finding, 'check'> => ({
  level: 'warning',
  message,
  advice,
})
const danger = (message: string, advice: string): Omit<Finding, 'check'> => ({
  level: 'danger',
  message,
  advice,
})

const SLOW_MS = 100
const OLDEST = 120_000
const LONG_KEEPALIVE_S = 600
const SHORT_STATEMENT_MS = 1_000

const checks: Readonly<Record<string, Check>> = {
  'server-version'({ settings }) {
    const version = `PostgreSQL ${settings.get('server_version') ?? 'of unknown version'}`
    if (number(settings, 'server_version_num') >= OLDEST) return ok(version)
    return warning(`${version} is older than 12`, 'upgrade the server')
  },

  'round-trip'({ roundTripMs }) {
    const message = `a statement takes ${roundTripMs.toFixed(1)} ms`
    if (roundTripMs < SLOW_MS) return ok(message)
    return warning(message, 'an acquire and a release take two of them: choose ttls well above that')
  },

  pooling({ pooling }, { strategy, listen }) {
    if (pooling === 'none') return ok('connections reach the server itself')
    if (pooling === 'session') return ok('a pooler in between keeps sessions together')
    const message = 'a pooler in transaction mode stands in between'
    if (strategy === 'row')
      return warning(message, 'connect directly, or use strategy unique-key with listen: false')
    return listen
      ? warning(`${message}; waiters poll once a second`, 'set listen: false, or connect directly')
      : ok(`${message}; waiters poll`)
  },

  recovery({ inRecovery, settings, pooling }, given) {
    if (inRecovery) return warning('the server is a standby and takes no locks', 'connect to the primary')
    if (settings.get('default_transaction_read_only') !== 'on') return ok('the server takes writes')
    const message = 'transactions are read-only by default'
    if (setsDefaults(given, pooling))
      return ok(`${message}; connections of the adapter set their own default`)
    return warning(message, 'set default_transaction_read_only = off for this role')
  },

  tables({ missing, forbidden }, { place }) {
    if (missing.length > 0) return warning(`there is no ${missing.join(', ')}`, 'run migrate()')
    if (forbidden.length > 0)
      return warning(
        `this role may not use ${forbidden.join(', ')}`,
        'grant it SELECT, INSERT, UPDATE and DELETE on them, or run migrate() as this role',
      )
    return ok(`the tables of ${place.schema}.${place.table} are there`)
  },

  strategy({ owner }, { strategy, place }) {
    const { locks, strategy: table } = namesOf(place)
    if (owner === strategy) return ok(`the locks of ${locks} belong to strategy ${owner}`)
    if (owner === undefined) return ok(`no strategy has been used in ${locks} yet, as far as can be seen`)
    const { message, advice } = otherStrategy({ locks, table }, strategy, owner)
    return warning(message, advice)
  },

  durability({ settings }) {
    if (settings.get('fsync') === 'off')
      return danger('fsync is off: a crash may take back fences that were given', 'set fsync = on')
    if (settings.get('full_page_writes') === 'off')
      return danger('full_page_writes is off: a crash may tear pages', 'set full_page_writes = on')
    return ok('what is committed survives a crash')
  },

  'synchronous-commit'({ settings }) {
    const mode = settings.get('synchronous_commit') ?? 'unknown'
    const standbys = settings.get('synchronous_standby_names') ?? ''
    if (mode === 'off') return ok('synchronous_commit is off; statements that give a fence turn it on')
    if (standbys !== '' && (mode === 'local' || mode === 'remote_write'))
      return danger(
        `synchronous_commit is ${mode}: a failover may take back fences that were given`,
        'set synchronous_commit = on for this role',
      )
    return ok(`synchronous_commit is ${mode}`)
  },

  isolation({ settings, pooling }, given) {
    const level = settings.get('default_transaction_isolation') ?? 'unknown'
    if (level === 'read committed') return ok(`transactions are ${level}`)
    const message = `transactions are ${level} by default`
    if (given.strategy === 'row') return ok(`${message}; row locks set their own level`)
    if (setsDefaults(given, pooling))
      return ok(`${message}; connections of the adapter set their own default`)
    return warning(
      `${message}: acquires are refused`,
      "set default_transaction_isolation = 'read committed' for this role",
    )
  },

  connections({ connections, settings }, { strategy, maxConnections, poolSize }) {
    const reserved = number(settings, 'superuser_reserved_connections')
    const room = number(settings, 'max_connections') - reserved
    const wanted = poolSize + (strategy === 'row' ? maxConnections : 1 + SPARE_CONNECTIONS)
    const message = `${connections} of ${room} connections are in use; this client may open ${wanted}`
    if (connections + wanted <= room) return ok(message)
    const lower = strategy === 'row' ? 'lower maxConnections or poolSize' : 'lower poolSize'
    return warning(message, `raise max_connections, or ${lower}`)
  },

  'session-timeouts'({ settings }, { strategy, listen }) {
    const short = (name: string, below: number): boolean =>
      number(settings, name) > 0 && number(settings, name) < below
    const found = [
      ...(short('statement_timeout', SHORT_STATEMENT_MS) ? ['statement_timeout'] : []),
      ...(short('idle_session_timeout', Infinity) && (strategy === 'row' || listen)
        ? ['idle_session_timeout']
        : []),
      ...(short('transaction_timeout', Infinity) && strategy === 'row' ? ['transaction_timeout'] : []),
    ]
    if (found.length === 0)
      return ok('no time-out of the server ends what belongs to a lock; holds and waits set their own')
    const told = found.map((name) => `${name} is ${settings.get(name)} ms`)
    return warning(
      `${told.join(', ')}: it may end statements, waits or holds`,
      `set ${found.map((name) => `${name} = 0`).join(', ')} for this role`,
    )
  },

  keepalives({ settings }, { strategy, sessionTtlMs }) {
    const idle = number(settings, 'tcp_keepalives_idle')
    const timeout = number(settings, 'tcp_user_timeout')
    const told = `tcp_keepalives_idle is ${idle} s, tcp_user_timeout ${timeout} ms`
    const probesS = number(settings, 'tcp_keepalives_interval') * number(settings, 'tcp_keepalives_count')
    const limitsMs = [...(idle > 0 ? [(idle + probesS) * 1_000] : []), ...(timeout > 0 ? [timeout] : [])]
    if (strategy === 'row' && Math.min(...limitsMs) < sessionTtlMs)
      return danger(
        `${told}: the server may end the connection of a holder that is cut off before its ttl is over, ` +
          'and another client holds the lock while it still relies on it',
        'set tcp_keepalives_idle = 60, tcp_keepalives_interval = 10, tcp_keepalives_count = 3 and ' +
          'tcp_user_timeout = 0 for this role, or lower sessionTtlMs',
      )
    if (idle > 0 && idle <= LONG_KEEPALIVE_S) return ok(told)
    return warning(
      `${told}: clients that vanish from the network stand in line for long`,
      'set tcp_keepalives_idle = 60, tcp_keepalives_interval = 10 and tcp_keepalives_count = 3',
    )
  },
}

export function findingsOf(facts: Facts, settings: Settings): readonly Finding[] {
  const found = Object.entries(checks).map(([check, look]) => ({ check, ...look(facts, settings) }))
  const { leftovers } = facts
  return leftovers === undefined ? found : [...found, leftoversFinding(leftovers, settings.fenceIdleMs)]
}

/** Whether the adapter may change the defaults of the connections it uses: those of a pool or a pooler are shared. */
function setsDefaults({ pool, strategy }: Settings, pooling: Pooling): boolean {
  return strategy === 'unique-key' && pool === undefined && pooling === 'none'
}

/** 0 for what the server does not know. */
function number(settings: ReadonlyMap<string, string>, name: string): number {
  return Number(settings.get(name) ?? 0)
}
