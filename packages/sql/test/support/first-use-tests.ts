import { isLockError } from '@locks/core'
import type { Locks } from '@locks/core'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { atLength } from '../../../../conformance/selection.ts'
import type { SqlBed } from './table-tests.ts'

const ROUNDS = atLength(5, 20)

interface FirstUseBed extends Pick<SqlBed, 'server' | 'strategies' | 'open'> {
  readonly adapter: string
  /** Runs statements past the adapter, as a user that may create tables. */
  readonly run: (text: string) => Promise<unknown>
  /** The tables whose names begin with that text. */
  readonly tablesLike: (table: string) => Promise<number>
  /** The url of a user that may log in and read a table, and not create one. */
  readonly powerless: () => Promise<string>
}

type Use = (url: string) => Promise<string>

/** Another process, which uses one place after the other. */
async function startUser(): Promise<Use> {
  const child = fork(join(import.meta.dirname, 'first-user.fixture.mjs'), [], { execArgv: [] })
  onTestFinished(() => void child.kill('SIGKILL'))
  await once(child, 'message')
  return (url) =>
    new Promise((resolve) => {
      child.once('message', (outcome) => resolve(JSON.stringify(outcome)))
      child.send(url)
    })
}

async function errorOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    (value) => expect.fail(`expected an error, got ${String(value)}`),
    (reason: unknown) => reason,
  )
}

export function firstUseTests(bed: FirstUseBed): void {
  const {
    server: { url },
    strategies,
    open,
    adapter,
    run,
    tablesLike,
    powerless,
  } = bed

  test.each(strategies)('%s: the first acquire creates the tables', async (strategy) => {
    const table = `made_${strategy.slice(0, 3)}`
    const first = await open({ url, strategy, table }).with('a', ({ fence }) => fence)
    const next = await open({ url, strategy, table, migrate: false }).with('a', ({ fence }) => fence)
    expect(next).toBeGreaterThan(first)
  })

  test(`two processes that start at once on an empty place both get the lock, ${ROUNDS} times`, async () => {
    const users = await Promise.all([startUser(), startUser()])
    for (let round = 0; round < ROUNDS; round += 1) {
      const place = new URL(url)
      place.searchParams.set('strategy', strategies[round % strategies.length] ?? '')
      place.searchParams.set('schema', `raced_${round}`)
      const fences = await Promise.all(users.map((use) => use(place.href)))
      expect(new Set(fences)).toHaveProperty('size', 2)
    }
  })

  test('tables made for one strategy belong to it', async () => {
    const [owner, other] = strategies
    await open({ url, strategy: owner, table: 'owned' }).with('a', () => undefined)
    const refused = errorOf(open({ url, strategy: other, table: 'owned' }).lock('a').tryAcquire())
    expect(String(await refused)).toContain(`belong to strategy ${owner}`)
  })

  test.each([
    ['an acquire with migrate: false', false, (locks: Locks) => locks.lock('a').tryAcquire()],
    ['inspect', 'auto', (locks: Locks) => locks.inspect('a')],
    ['list', 'auto', (locks: Locks) => locks.list()],
    ['break', 'auto', (locks: Locks) => locks.lock('a').break()],
  ] as const)('%s creates nothing, and the error shows the command', async (_, migrate, call) => {
    for (const strategy of strategies) {
      const error = await errorOf(call(open({ url, strategy, table: 'never', migrate })))
      expect(isLockError(error, 'LOCK_INVALID_ARGUMENT')).toBe(true)
      expect(String(error)).toMatch(/a table is missing: .*; run: npx -p @locks\/cli locks migrate \S+$/)
    }
    expect(await tablesLike('never')).toBe(0)
  })

  test('without the right to create tables an acquire fails at once, with the call, the SQL and the command', async () => {
    const theirs = await powerless()
    for (const strategy of strategies) {
      const place = { strategy, table: `wanted_${strategy.slice(0, 3)}` }
      const locks = open({ url: theirs, ...place }, { storeTimeoutMs: 600_000 })
      const error = await errorOf(locks.lock('a').acquire({ waitMs: 600_000 }))
      if (!isLockError(error, 'LOCK_INVALID_ARGUMENT')) throw error
      const command = /run: npx -p @locks\/cli locks migrate '(\S+)'$/.exec(error.message)?.[1] ?? ''
      expect(command).toContain(`table=${place.table}`)
      expect(error.message).toContain('this user may not create them')
      expect(error.message).toContain(`await migrate({ url: '${command}' }) of ${adapter}`)
      const { cause } = error
      if (!(cause instanceof Error) || !('sql' in cause)) throw error
      expect(JSON.stringify(error)).not.toContain('CREATE TABLE')
      await run(String(cause.sql))
      await open({ url, ...place, migrate: false }).with('a', () => undefined)
    }
  })
}
