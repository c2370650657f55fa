import { isLockError } from '@locks/core'
import type { Finding, Locks, LockError } from '@locks/core'
import { expect, test } from 'vitest'
import type { SqlBed } from './table-tests.ts'

const RACERS = 12

interface StrategyBed extends Pick<SqlBed, 'server' | 'strategies' | 'open' | 'migrate'> {
  /** Runs a statement past the adapter. */
  readonly run: (text: string) => Promise<unknown>
}

async function refusalOf(call: Promise<unknown>): Promise<LockError> {
  const error = await call.then(
    (value) => expect.fail(`expected a refusal, got ${String(value)}`),
    (reason: unknown) => reason,
  )
  if (!isLockError(error, 'LOCK_INVALID_ARGUMENT')) throw error
  return error
}

async function findingOf(locks: Locks): Promise<Finding | undefined> {
  return (await locks.diagnose()).find(({ check }) => check === 'strategy')
}

/** Strategies of one server, each of which stores its locks in tables of its own. */
export function sqlStrategyTests({ server: { url }, strategies, open, migrate, run }: StrategyBed): void {
  const pairs = strategies.flatMap((one) =>
    strategies.filter((other) => other !== one).map((other) => [one, other] as const),
  )
  let places = 0

  async function newPlace(): Promise<{ readonly schema: string; readonly table: string }> {
    const place = { schema: 'strategies', table: `place_${(places += 1)}` }
    await migrate({ url, ...place })
    return place
  }

  test.each(pairs)('while %s holds a name, %s is refused: both cannot hold it', async (owner, other) => {
    const place = await newPlace()
    const [holder, stranger] = [
      open({ url, strategy: owner, ...place }),
      open({ url, strategy: other, ...place }, { storeTimeoutMs: 600_000 }),
    ]
    expect(await stranger.inspect('order')).toMatchObject({ held: false })
    expect(await findingOf(stranger)).toMatchObject({ level: 'ok' })
    const lease = await holder.lock('order').acquire()
    const lock = stranger.lock('order')
    for (const call of [
      () => lock.tryAcquire(),
      () => lock.acquire({ waitMs: 60_000 }),
      () => stranger.lock('another').tryAcquire(),
      () => stranger.inspect('order'),
      () => stranger.list(),
      () => lock.break(),
    ]) {
      const { message } = await refusalOf(call())
      expect(message).toContain(`belong to strategy ${owner}, and this client uses ${other}`)
      expect(message).toContain(`set strategy to ${owner}`)
    }
    const found = await findingOf(stranger)
    expect(found).toMatchObject({ level: 'warning' })
    expect(found?.message).toContain(`belong to strategy ${owner}`)
    expect(await findingOf(holder)).toMatchObject({ level: 'ok' })
    lease.assertHeld()
    await lease.release()
  })

  test('of clients that start at the same time, those of one strategy get their locks', async () => {
    for (let round = 0; round < 5; round += 1) {
      const place = await newPlace()
      const clients = Array.from({ length: RACERS }, (_, n) => {
        const strategy = strategies[n % strategies.length] ?? ''
        return { strategy, locks: open({ url, strategy, ...place }) }
      })
      const winners = new Set<string>()
      let refused = 0
      await Promise.all(
        clients.map(async ({ strategy, locks }, n) => {
          const outcome = await locks
            .lock(`order ${n}`)
            .tryAcquire()
            .catch((error: unknown) => error)
          if (isLockError(outcome, 'LOCK_INVALID_ARGUMENT')) refused += 1
          else if (outcome instanceof Error) throw outcome
          else winners.add(strategy)
        }),
      )
      expect([...winners]).toHaveLength(1)
      expect(refused).toBe(RACERS - RACERS / strategies.length)
      await Promise.all(clients.map(({ locks }) => locks.close()))
    }
  })

  test('migrate keeps the owner, and makes the record where older tables have none', async () => {
    const place = await newPlace()
    const [owner = '', other = ''] = strategies
    await open({ url, strategy: owner, ...place }).with('order', () => undefined)
    const migrated = `${url}${url.includes('?') ? '&' : '?'}strategy=${other}`
    await Promise.all([url, migrated, migrated].map((by) => migrate({ url: by, ...place })))
    await refusalOf(
      open({ url, strategy: other, ...place })
        .lock('order')
        .tryAcquire(),
    )
    await run(`DROP TABLE ${place.schema}.${place.table}_strategy`)
    const { message } = await refusalOf(
      open({ url, strategy: owner, ...place })
        .lock('order')
        .tryAcquire(),
    )
    expect(message).toContain('locks migrate')
    await migrate({ url, ...place })
    await open({ url, strategy: owner, ...place }).with('order', ({ fence }) => expect(fence).toBe(2n))
    await refusalOf(
      open({ url, strategy: other, ...place })
        .lock('order')
        .tryAcquire(),
    )
  })

  test('the record is read once per client, and its row can be deleted to change the strategy', async () => {
    const place = await newPlace()
    const [owner = '', other = ''] = strategies
    const locks = open({ url, strategy: owner, ...place })
    await locks.with('order', () => undefined)
    await run(`DELETE FROM ${place.schema}.${place.table}_strategy`)
    await locks.with('order', () => undefined)
    expect(await locks.inspect('order')).toMatchObject({ held: false })
    await locks.close()
    await open({ url, strategy: other, ...place }).with('order', () => undefined)
    await refusalOf(
      open({ url, strategy: owner, ...place })
        .lock('order')
        .tryAcquire(),
    )
  })
}
