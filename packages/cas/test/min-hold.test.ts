import { cas, fileStore, memoryStore, redisStore } from '@locks/cas'
import type { StoreFactory, VersionedStore } from '@locks/cas'
import { createLocks } from '@locks/core'
import { eventually } from '@locks/core/conformance'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isSelected } from '../../../conformance/selection.ts'
import { startService } from '../../../conformance/services/index.ts'
import { bare, isBusy, temporaryDirectory } from './support/bed.ts'

const KEEP_MS = 500

const stores: readonly (readonly [name: string, open: () => Promise<StoreFactory>])[] = [
  ['cas-memory', async () => memoryStore()],
  ['cas-file', async () => fileStore({ directory: await temporaryDirectory() })],
  [
    'cas-redis',
    async () => {
      const service = await startService('redis')
      onTestFinished(() => service.close())
      return redisStore({ url: service.url })
    },
  ],
]

describe.each(stores.filter(([name]) => isSelected(name)))(
  'a name that stays taken, with %s',
  (_, opened) => {
    test('is free in time for a client that has never seen it before, and not earlier', async () => {
      const open = await opened()
      const holder = bare(open)
      const grant = await holder.take(holder.request({ ttlMs: 60_000 }))
      const startedAt = performance.now()
      expect(await holder.adapter.release(grant, KEEP_MS)).toBe('released')
      const bound = { ms: KEEP_MS + 1_000, waitsMs: KEEP_MS }
      // Each of them looks once, as processes do that cron starts.
      const next = await eventually('granted at first sight', bound, async () => {
        const fresh = bare(open)
        const answer = await fresh.adapter.attempt(fresh.request())
        return 'fence' in answer && answer
      })
      expect(performance.now() - startedAt).toBeGreaterThanOrEqual(KEEP_MS)
      expect(next.fence).toBeGreaterThan(grant.fence)
    })

    test('is shown with the time that remains, and as free once that is over', async () => {
      const open = await opened()
      const holder = bare(open)
      const request = holder.request({ owner: 'the job' })
      await holder.adapter.release(await holder.take(request), KEEP_MS)
      const state = await bare(open).adapter.inspect(request.name)
      if (state.held) expect(state).toMatchObject({ holder: { owner: 'the job' } })
      if (state.held) expect(state.remainingMs).toBeLessThanOrEqual(KEEP_MS)
      const bound = { ms: KEEP_MS + 1_000, waitsMs: KEEP_MS }
      await eventually(
        'shown as free',
        bound,
        async () => !(await bare(open).adapter.inspect(request.name)).held,
      )
    })

    test('is not freed by the release whose answer was lost and that is sent again', async () => {
      const open = await opened()
      const holder = bare(open)
      const request = holder.request()
      const grant = await holder.take(request)
      await holder.adapter.release(grant, 60_000)
      expect(await holder.adapter.release(grant, 60_000)).toBe('not-held')
      await holder.adapter.withdraw?.(request)
      expect(await isBusy(holder, holder.request())).toBe(true)
    })
  },
)

test('a store without a clock refuses minHoldMs', async () => {
  const store = memoryStore()()
  const timeless: VersionedStore = {
    scope: 'process',
    fencing: 'durable',
    get: (key) => store.get(key),
    put: (...args) => store.put(...args),
    close: () => store.close(),
  }
  const locks = createLocks(cas(() => timeless))
  onTestFinished(() => locks.close())
  expect(locks.capabilities.minHold).toBe(false)
  await expect(locks.lock('a').acquire({ minHoldMs: 1 })).rejects.toMatchObject({ code: 'LOCK_UNSUPPORTED' })
})
