import { quotedNames } from '@locks/sql'
import type { Tables } from './options.ts'

const suffixes = {
  locks: '',
  rows: '_rows',
  holders: '_holders',
  named: '_named',
  pruned: '_pruned',
  strategy: '_strategy',
}

/** Quoted names of one set of tables. Schema and table are validated; quoting allows reserved words. */
export type Names = Readonly<Record<keyof typeof suffixes | 'resources', string>>

export function namesOf({ schema, table }: Tables): Names {
  const within = schema === undefined ? '' : `\`${schema}\`.`
  const names = quotedNames(suffixes, (suffix) => `${within}\`${table}${suffix}\``)
  return { ...names, resources: `${within}fenced_resources` }
}

/** The same names, not quoted and without their database. */
export function plainNamesOf({ table }: Tables): Readonly<Record<keyof typeof suffixes, string>> {
  return quotedNames(suffixes, (suffix) => `${table}${suffix}`)
}

/** A condition: the table has the key of ours, which one of another program hardly has. */
export function hasOurKey(tables: Tables, part: 'pruned' | 'strategy'): string {
  const schema = tables.schema === undefined ? 'DATABASE()' : `'${tables.schema}'`
  return `EXISTS (SELECT 1 FROM information_schema.COLUMNS
  WHERE TABLE_SCHEMA = ${schema} AND TABLE_NAME = '${plainNamesOf(tables)[part]}'
    AND COLUMN_NAME = 'id' AND DATA_TYPE = 'tinyint' AND COLUMN_KEY = 'PRI')`
}

/**
 * One set of tables. Names and attempts are bytes: a collation may consider `LOCK`, `lock ` and `löck` equal. The
 * first row of `pruned` keeps the highest fence ever deleted. Transactions that hold names share a lock of the second:
 * to record another strategy than `row`, a client locks it alone. The one row of `strategy`, made on first use,
 * names the strategy that the locks belong to.
 */
export function schemaOf(tables: Tables): readonly string[] {
  const to = namesOf(tables)
  const table = (name: string, ...columns: readonly string[]): string =>
    `CREATE TABLE IF NOT EXISTS ${name} (\n  ${columns.join(',\n  ')}\n) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`
  const key = 'VARBINARY(1024) NOT NULL PRIMARY KEY'
  const counted = [`name ${key}`, 'fence BIGINT NOT NULL']
  const session = [
    ...counted,
    'attempt VARBINARY(1024) NOT NULL',
    'holder MEDIUMBLOB NOT NULL',
    'since DATETIME(6) NOT NULL',
    'hold VARBINARY(64) NOT NULL',
  ]
  return [
    ...(tables.schema === undefined ? [] : [`CREATE DATABASE IF NOT EXISTS \`${tables.schema}\``]),
    table(
      to.locks,
      ...counted,
      'verdict TINYINT NOT NULL DEFAULT 0',
      'attempt VARBINARY(1024)',
      'holder MEDIUMBLOB',
      'since DATETIME(6) NOT NULL',
      'expires_at DATETIME(6)',
      'blocked_until DATETIME(6)',
    ),
    table(to.rows, `name ${key}`),
    table(to.holders, ...session),
    table(to.named, ...session),
    table(to.pruned, 'id TINYINT NOT NULL PRIMARY KEY', 'fence BIGINT NOT NULL'),
    // Run by hand, this SQL checks nothing else, and changes no other table.
    `INSERT INTO ${to.pruned} (id, fence) SELECT n.id, 0 FROM (SELECT 1 AS id UNION ALL SELECT 2) n
WHERE ${hasOurKey(tables, 'pruned')} ON DUPLICATE KEY UPDATE id = ${to.pruned}.id`,
    table(to.resources, `resource ${key}`, 'fence BIGINT NOT NULL'),
    table(to.strategy, 'id TINYINT NOT NULL PRIMARY KEY', 'strategy VARBINARY(32) NOT NULL'),
  ]
}
