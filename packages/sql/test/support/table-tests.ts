import { isLockError } from '@locks/core'
import type { Locks, LocksOptions } from '@locks/core'
import { systemClock } from '@locks/core/adapter'
import { eventually } from '@locks/core/conformance'
import { expect, test } from 'vitest'
import { atLength } from '../../../../conformance/selection.ts'
import type { Server } from '../../../../conformance/services/index.ts'
import { scaled } from '../../../../conformance/services/timing.ts'
import { hammerPrune } from '../../../../conformance/test-support/prune-hammer.ts'

interface Tables {
  readonly schema: string
  readonly table: string
}

/** What tests need of an adapter that stores its locks in tables. */
export interface SqlBed {
  readonly server: Server
  readonly strategies: readonly string[]
  readonly open: (config: Readonly<Record<string, unknown>>, options?: LocksOptions) => Locks
  readonly migrate: (options: Tables & { readonly url: string }) => Promise<void>
  readonly prune: (options: Tables & { readonly url: string }, olderThanMs: number) => Promise<number>
  /** Names that must be quoted. */
  readonly elsewhere: Tables
}

function expectRising(fences: readonly bigint[]): void {
  fences.reduce((before, fence) => {
    expect(fence).toBeGreaterThan(before)
    return fence
  })
}

export function sqlTableTests({
  server: { url },
  strategies,
  open,
  migrate,
  prune,
  elsewhere,
}: SqlBed): void {
  test.each(strategies)('%s: other schemas and tables are locks of their own', async (strategy) => {
    const { schema, table } = elsewhere
    const place =
      strategy === strategies[0] ? elsewhere : { schema, table: `${table}_${strategy.slice(0, 3)}` }
    await migrate({ url, ...place })
    const [here, there] = [open({ url, strategy }), open({ url, strategy, ...place })]
    const lease = await here.lock('both').acquire()
    const other = await there.lock('both').acquire({ waitMs: 0 })
    await Promise.all([lease.release(), other.release()])
    expect(await prune({ url, ...place }, 0)).toBe(1)
  })

  test('migrate can be run by many at once, and again', async () => {
    const place = { schema: 'crowd', table: 'locks' }
    await Promise.all(Array.from({ length: 10 }, () => migrate({ url, ...place })))
    const locks = open({ url, ...place })
    await locks.with('a', () => undefined)
    await migrate({ url, ...place })
    await locks.with('a', ({ fence }) => expect(fence).toBe(2n))
  })

  test('without the tables an acquire says what to do, at once', async () => {
    for (const strategy of strategies) {
      const locks = open({ url, strategy, table: 'nowhere', migrate: false })
      const error = await locks
        .lock('a')
        .acquire()
        .catch((reason: unknown) => reason)
      expect(isLockError(error, 'LOCK_INVALID_ARGUMENT')).toBe(true)
      expect(String(error)).toContain('npx -p @locks/cli locks migrate ')
    }
  })

  test.each(strategies)(
    '%s: a client that ends after one lock has pruned, if it was chosen',
    async (strategy) => {
      const place = { schema: 'brief', table: strategy.slice(0, 3) }
      await migrate({ url, ...place })
      const keeping = open({ url, strategy, ...place, fenceIdleMs: 0 })
      for (let n = 0; n < 5; n += 1) await keeping.with(`order ${n}`, () => undefined)
      const clock = { ...systemClock, random: () => 0 }
      await eventually('only the last name is left', scaled(10_000), async () => {
        const brief = open({ url, strategy, ...place, fenceIdleMs: 1_000 }, { clock })
        await brief.with('last', () => undefined)
        await brief.close()
        return (await keeping.diagnose()).some(({ message }) => message.startsWith('rows of 1 free names'))
      })
    },
  )

  test.each(strategies)('%s: pruning neither resets a fence nor touches a held name', async (strategy) => {
    const place = { schema: 'pruned', table: strategy.slice(0, 3) }
    await migrate({ url, ...place })
    const locks = open({ url, strategy, ...place })
    const fences: bigint[] = []
    const use = (): Promise<void> => locks.with('again', ({ fence }) => void fences.push(fence))
    const held = await locks.lock('held').acquire()
    for (let n = 0; n < 5; n += 1) await use()
    expect(await prune({ url, ...place }, 60_000)).toBe(0)
    // Pruning while others make the very row anew: fences rise in either order.
    for (let round = 0; round < 20; round += 1) await Promise.all([use(), prune({ url, ...place }, 0)])
    await prune({ url, ...place }, 0)
    await use()
    expectRising(fences)
    held.assertHeld()
    await held.extend()
    await held.release()
  })

  test.each(strategies)(
    '%s: a name that is pruned while others acquire it has one holder, and its fences rise',
    { timeout: 120_000 },
    async (strategy) => {
      const place = { schema: 'hammered', table: strategy.slice(0, 3) }
      await migrate({ url, ...place })
      const hammering = { tries: atLength(50, 100), atLeast: 10 }
      await hammerPrune(() => open({ url, strategy, ...place }), 'again', hammering)
    },
  )

  test.each(strategies)(
    '%s: clients prune idle names after their releases, and fences continue above those',
    async (strategy) => {
      const place = { schema: 'upkeep', table: strategy.slice(0, 3) }
      await migrate({ url, ...place })
      const locks = open({ url, strategy, ...place, fenceIdleMs: 0 })
      const first = new Map<string, bigint>()
      for (let n = 0; n < 40; n += 1)
        await locks.with(`order ${n}`, ({ fence }) => void first.set(`order ${n}`, fence))
      const kept = async (): Promise<number> => {
        const found = (await locks.diagnose()).find(({ check }) => check === 'leftovers')
        return Number(/of (\d+) free/.exec(found?.message ?? '')?.[1])
      }
      expect(await kept()).toBe(40)
      const pruning = open({ url, strategy, ...place, fenceIdleMs: 1_000 })
      await eventually('idle names are pruned', 20_000, async () => {
        await pruning.with('other', () => undefined)
        return (await kept()) <= 1
      })
      for (const [name, fence] of first)
        await locks.with(name, (lease) => expect(lease.fence).toBeGreaterThan(fence))
    },
  )
}

const kills = atLength(8, 20)

export function sqlCrashTests(
  { server, strategies, open }: Pick<SqlBed, 'server' | 'strategies' | 'open'>,
  { ttlMs, waitMs }: { readonly ttlMs: number; readonly waitMs: number },
): void {
  test.each(strategies)(
    `fences of strategy %s only rise across ${kills} kills of the server in mid-hold`,
    async (strategy) => {
      const fences: bigint[] = []
      for (let kill = 0; kill <= kills; kill += 1) {
        const locks = open({ url: server.url, strategy }, { ttlMs })
        const lease = await locks.lock('crash').acquire({ waitMs })
        fences.push(lease.fence)
        if (kill < kills) await server.restart({ hard: true })
        // It may still be held, or not.
        await lease.release().catch((error: unknown) => expect(isLockError(error)).toBe(true))
        await locks.close()
      }
      expect(fences).toHaveLength(kills + 1)
      expectRising(fences)
    },
    scaled(240_000),
  )
}
