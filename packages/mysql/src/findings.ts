import { verdicts } from '@locks/core/adapter'
import type { Checks, Verdict } from '@locks/core/adapter'
import { connectionsVerdict, SPARE_CONNECTIONS, tableChecks } from '@locks/sql'
import type { TableFacts } from '@locks/sql'
import type { Settings } from './options.ts'

export interface Server extends TableFacts {
  /** A setting of the server; `''` where it has none of that name. */
  readonly value: (name: string) => string
  readonly connected: number
  /** The mode of the connection that runs statements. */
  readonly sqlMode: string
  readonly autocommit: boolean
  /** Whether the tables can be used. */
  readonly tables: Verdict
}

const { ok, warning, danger } = verdicts

const isOn = (value: string): boolean => !/^(|0|OFF|NO)$/i.test(value)

export const checks: Checks<Server, Settings> = {
  'server-version': ({ value }) => {
    const version = value('version')
    const [major = 0, minor = 0] = version.split('.').map((part) => Number.parseInt(part, 10))
    const maria = /mariadb/i.test(`${version} ${value('version_comment')}`)
    const shown = `${maria ? 'MariaDB' : 'MySQL'} ${version}`
    const enough = maria ? major > 10 || (major === 10 && minor >= 6) : major >= 8
    return enough ? ok(shown) : danger(shown, 'use MySQL 8 or newer, or MariaDB 10.6 or newer')
  },
  'durable-commit': ({ value }) => {
    const flush = value('innodb_flush_log_at_trx_commit')
    const shown = `innodb_flush_log_at_trx_commit is ${flush}`
    return flush === '1' || flush === '3'
      ? ok(shown)
      : danger(`${shown}: a crash may reset a fence`, 'set it to 1')
  },
  'durable-binlog': ({ value }) => {
    if (!isOn(value('log_bin'))) return ok('there is no binary log')
    const shown = `sync_binlog is ${value('sync_binlog')}`
    return value('sync_binlog') === '1'
      ? ok(shown)
      : danger(`${shown}: a power failure may reset a fence`, 'set it to 1')
  },
  'binlog-format': ({ value }) =>
    isOn(value('log_bin')) && value('binlog_format') === 'STATEMENT'
      ? warning(
          'binlog_format is STATEMENT, which does not allow READ COMMITTED: acquires are refused',
          'set it to ROW or MIXED',
        )
      : undefined,
  writable: ({ value }) => {
    const set = ['read_only', 'super_read_only', 'innodb_read_only'].filter((name) => isOn(value(name)))
    return set.length === 0
      ? ok('the server accepts writes')
      : warning(`${set.join(' and ')} is on: this is a replica, or in maintenance`, 'connect to the primary')
  },
  'single-writer': ({ value }, { strategy }) => {
    const galera = isOn(value('wsrep_on'))
    const group = value('group_replication_group_name') !== ''
    if (!galera && !group) return ok('neither Galera nor group replication')
    const shown = galera
      ? 'this server is a node of a Galera cluster'
      : 'this server is in a replication group'
    return strategy === 'unique-key'
      ? ok(`${shown}; unique-key spans its nodes`)
      : danger(
          `${shown}: locks of strategy ${strategy} exist on one node only`,
          'let every client use the same node, or use strategy unique-key',
        )
  },
  autocommit: ({ autocommit }) =>
    autocommit
      ? ok('every statement is committed')
      : warning('autocommit is off in your pool: acquires are refused', 'turn it on'),
  'sql-mode': ({ sqlMode }, { pool }) => {
    if (/SIMULTANEOUS_ASSIGNMENT/.test(sqlMode))
      return warning('sql_mode has SIMULTANEOUS_ASSIGNMENT: acquires are refused', 'remove it for your pool')
    return /STRICT_(ALL|TRANS)_TABLES/.test(sqlMode)
      ? ok(pool === undefined ? 'strict, as set by the adapter' : 'strict')
      : warning('sql_mode of your pool is not strict: values may be cut to fit', 'add STRICT_ALL_TABLES')
  },
  connections: ({ value, connected }, { strategy, pool, poolSize, maxConnections }) => {
    const most = Number(value('max_connections'))
    const sessions = strategy === 'unique-key' ? SPARE_CONNECTIONS : maxConnections
    const own = sessions + (pool === undefined ? poolSize : 0)
    return connectionsVerdict(connected, most, own, 'maxConnections or poolSize')
  },
  'idle-limit': ({ value }) => {
    const seconds = Number(value('wait_timeout'))
    const shown = `idle connections end after ${seconds} s`
    return seconds >= 30 ? ok(shown) : warning(shown, 'raise wait_timeout: connecting is slow')
  },
  'lock-wait': ({ value }) => ok(`innodb_lock_wait_timeout is ${value('innodb_lock_wait_timeout')} s`),
  tables: ({ tables }) => tables,
  ...tableChecks,
}
