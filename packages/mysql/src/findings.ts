import { danger, ok, warning } from '@locks/core/adapter'
import type { Finding } from '@locks/core/adapter'
import { connectionsFinding, SPARE_CONNECTIONS } from '@locks/sql'
import type { Settings } from './options.ts'

/** Turns settings of the server into a finding; undefined where it does not apply. */
export type Check = (server: Server, settings: Settings) => Finding | undefined

export interface Server {
  /** A setting of the server; `''` where it has none of that name. */
  readonly value: (name: string) => string
  readonly connected: number
  /** The mode of the connection that runs statements. */
  readonly sqlMode: string
  readonly autocommit: boolean
}

const isOn = (value: string): boolean => !/^(|0|OFF|NO)$/i.test(value)

export const checks: readonly Check[] = [
  ({ value }) => {
    const version = value('version')
    const [major = 0, minor = 0] = version.split('.').map((part) => Number.parseInt(part, 10))
    const maria = /mariadb/i.test(`${version} ${value('version_comment')}`)
    const shown = `${maria ? 'MariaDB' : 'MySQL'} ${version}`
    const enough = maria ? major > 10 || (major === 10 && minor >= 6) : major >= 8
    return enough
      ? ok('server-version', shown)
      : danger('server-version', shown, 'use MySQL 8 or newer, or MariaDB 10.6 or newer')
  },
  ({ value }) => {
    const flush = value('innodb_flush_log_at_trx_commit')
    const shown = `innodb_flush_log_at_trx_commit is ${flush}`
    return flush === '1' || flush === '3'
      ? ok('durable-commit', shown)
      : danger('durable-commit', `${shown}: a crash may reset a fence`, 'set it to 1')
  },
  ({ value }) => {
    if (!isOn(value('log_bin'))) return ok('durable-binlog', 'there is no binary log')
    const shown = `sync_binlog is ${value('sync_binlog')}`
    return value('sync_binlog') === '1'
      ? ok('durable-binlog', shown)
      : danger('durable-binlog', `${shown}: a power failure may reset a fence`, 'set it to 1')
  },
  ({ value }) =>
    isOn(value('log_bin')) && value('binlog_format') === 'STATEMENT'
      ? warning(
          'binlog-format',
          'binlog_format is STATEMENT, which does not allow READ COMMITTED: acquires are refused',
          'set it to ROW or MIXED',
        )
      : undefined,
  ({ value }) => {
    const set = ['read_only', 'super_read_only', 'innodb_read_only'].filter((name) => isOn(value(name)))
    return set.length === 0
      ? ok('writable', 'the server accepts writes')
      : warning(
          'writable',
          `${set.join(' and ')} is on: this is a replica, or in maintenance`,
          'connect to the primary',
        )
  },
  ({ value }, { strategy }) => {
    const galera = isOn(value('wsrep_on'))
    const group = value('group_replication_group_name') !== ''
    if (!galera && !group) return ok('single-writer', 'neither Galera nor group replication')
    const shown = galera
      ? 'this server is a node of a Galera cluster'
      : 'this server is in a replication group'
    return strategy === 'unique-key'
      ? ok('single-writer', `${shown}; unique-key spans its nodes`)
      : danger(
          'single-writer',
          `${shown}: locks of strategy ${strategy} exist on one node only`,
          'let every client use the same node, or use strategy unique-key',
        )
  },
  ({ autocommit }) =>
    autocommit
      ? ok('autocommit', 'every statement is committed')
      : warning('autocommit', 'autocommit is off in your pool: acquires are refused', 'turn it on'),
  ({ sqlMode }, { pool }) => {
    if (/SIMULTANEOUS_ASSIGNMENT/.test(sqlMode))
      return warning(
        'sql-mode',
        'sql_mode has SIMULTANEOUS_ASSIGNMENT: acquires are refused',
        'remove it for your pool',
      )
    return /STRICT_(ALL|TRANS)_TABLES/.test(sqlMode)
      ? ok('sql-mode', pool === undefined ? 'strict, as set by the adapter' : 'strict')
      : warning(
          'sql-mode',
          'sql_mode of your pool is not strict: values may be cut to fit',
          'add STRICT_ALL_TABLES',
        )
  },
  ({ value, connected }, { strategy, pool, poolSize, maxConnections }) => {
    const most = Number(value('max_connections'))
    const sessions = strategy === 'unique-key' ? SPARE_CONNECTIONS : maxConnections
    const own = sessions + (pool === undefined ? poolSize : 0)
    return connectionsFinding(connected, most, own, 'maxConnections or poolSize')
  },
  ({ value }) => {
    const seconds = Number(value('wait_timeout'))
    const shown = `idle connections end after ${seconds} s`
    return seconds >= 30
      ? ok('idle-limit', shown)
      : warning('idle-limit', shown, 'raise wait_timeout: connecting is slow')
  },
  ({ value }) => ok('lock-wait', `innodb_lock_wait_timeout is ${value('innodb_lock_wait_timeout')} s`),
]
