import { isLockError } from '@locks/core'
import type { Locks } from '@locks/core'
import { inTime } from '@locks/core/conformance'
import { expect, test } from 'vitest'
import { scaled } from '../../../../conformance/services/timing.ts'
import type { SqlBed } from './table-tests.ts'

interface ForeignBed extends Pick<SqlBed, 'server' | 'strategies' | 'open' | 'migrate' | 'prune'> {
  /** Runs a statement past the adapter. */
  readonly run: (text: string) => Promise<unknown>
  /** Everything with a name that begins so: definitions, and the rows of tables. */
  readonly contentOf: (table: string) => Promise<unknown>
  /** A column type for names. */
  readonly bytes: string
  /** The schema of `url`. */
  readonly schema: string
  readonly suffixes: readonly string[]
}

const saying =
  /a name is taken: (table|function) \S+ exists, and @locks\/\w+ did not create it.*; nothing was changed; set table or schema to another name/

/** Tables of other programs at the names that locks want: every call fails with the same advice, and none changes them. */
export function foreignTableTests(bed: ForeignBed): void {
  const { server, strategies, open, migrate, prune, run, contentOf, bytes, schema, suffixes } = bed
  const { url } = server
  let count = 0

  async function refused(call: Promise<unknown>): Promise<void> {
    const outcome = await inTime(
      'a refusal',
      scaled(10_000),
      call.catch((error: unknown) => error),
    )
    if (isLockError(outcome, 'LOCK_UNSUPPORTED')) return
    if (!isLockError(outcome, 'LOCK_INVALID_ARGUMENT')) throw outcome
    expect(outcome.message).toMatch(saying)
  }

  async function expectUntouched(create: (table: string) => readonly string[]): Promise<void> {
    const table = `theirs${(count += 1)}_`
    for (const text of create(table)) await run(text)
    const before = await contentOf(table)
    for (const strategy of strategies) {
      const given = { url, strategy, table, ...(strategy === 'advisory' && { fencing: true }) }
      const options = { storeTimeoutMs: scaled(60_000) }
      const calls: readonly ((locks: Locks) => Promise<unknown>)[] = [
        (locks) => locks.lock('a').tryAcquire(),
        (locks) => locks.lock('a').acquire({ waitMs: 1_000 }),
        (locks) => locks.lock('a').break(),
        (locks) => locks.inspect('a'),
        (locks) => locks.list(),
        (locks) => locks.prune({ idleMs: 0 }),
      ]
      for (const call of calls) await refused(call(open(given, options)))
      await refused(
        open({ ...given, migrate: false }, options)
          .lock('a')
          .tryAcquire(),
      )
      const found = (await open(given, options).diagnose()).find(({ check }) => check === 'tables')
      expect(found).toMatchObject({ level: 'warning', advice: 'set table or schema to another name' })
      expect(found?.message).toMatch(/exists, and @locks\/\w+ did not create it/)
    }
    await refused(migrate({ url, schema, table }))
    await refused(prune({ url, schema, table }, 0))
    expect(await contentOf(table)).toEqual(before)
  }

  test('a table of other columns', () =>
    expectUntouched((table) => [
      `CREATE TABLE ${table} (id int PRIMARY KEY, title varchar(40))`,
      `INSERT INTO ${table} VALUES (1, 'Yale')`,
    ]))

  test('a table that has a name and a fence', () =>
    expectUntouched((table) => [
      `CREATE TABLE ${table} (name ${bytes} PRIMARY KEY, fence bigint NOT NULL, attempt int, holder int,
        since int, hold int, expires_at int, blocked_until int)`,
      `INSERT INTO ${table} (name, fence) VALUES ('garden', 3)`,
    ]))

  test.each(suffixes)('a table with the suffix %s', (suffix) =>
    expectUntouched((table) => [
      `CREATE TABLE ${table}${suffix} (id int, strategy varchar(32), name ${bytes}, fence bigint, price int)`,
      `INSERT INTO ${table}${suffix} VALUES (7, 'none', 'door', 12, 40)`,
    ]),
  )

  test.each(strategies)('a table of strategies whose row names %s', (strategy) =>
    expectUntouched((table) => [
      `CREATE TABLE ${table}_strategy (id int, strategy varchar(32), price int)`,
      `INSERT INTO ${table}_strategy VALUES (1, '${strategy}', 40)`,
    ]),
  )

  test('a view', () => expectUntouched((table) => [`CREATE VIEW ${table} AS SELECT 1 AS name, 2 AS fence`]))

  test.each(strategies)('%s: a table of ours that got more columns stays ours', async (strategy) => {
    const table = `ours${(count += 1)}`
    const given = { url, strategy, table, ...(strategy === 'advisory' && { fencing: true }) }
    const options = { storeTimeoutMs: scaled(60_000) }
    const levelOf = async (): Promise<unknown> => {
      const found = await open(given, options).diagnose()
      return found.find(({ check }) => check === 'tables')
    }
    await migrate({ url, schema, table })
    for (const part of ['', '_rows', '_holders', '_strategy'])
      await run(
        `ALTER TABLE ${table}${part} ADD COLUMN seen_by varchar(9), ADD COLUMN seen int NOT NULL DEFAULT 0`,
      )
    for (const again of [false, true]) {
      if (again) await run(`DELETE FROM ${table}_strategy`)
      await open(given, options).with('a', () => undefined)
      expect(await levelOf()).toMatchObject({ level: 'ok' })
      await migrate({ url, schema, table })
      await prune({ url, schema, table }, 60_000)
    }
    // No row can be added without it.
    await run(`DELETE FROM ${table}_rows`)
    await run(`ALTER TABLE ${table}_rows ADD COLUMN must_see int NOT NULL`)
    const advice: unknown = expect.stringContaining('set table or schema')
    const message: unknown = expect.not.stringContaining('no lock can be acquired')
    expect(await levelOf()).toMatchObject({ level: 'warning', advice, message })
    await refused(migrate({ url, schema, table }))
  })
}
