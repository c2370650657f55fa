import { createLocks } from '@locks/core'
import type { Lease } from '@locks/core'
import { cas, fileStore, memoryStore } from '@locks/cas'
import type { StoreFactory } from '@locks/cas'
import { describe, expect, onTestFinished, test } from 'vitest'
import { bare, temporaryDirectory, troubled } from './support/bed.ts'
import type { Bare } from './support/bed.ts'

const stores: readonly (readonly [string, () => Promise<StoreFactory>])[] = [
  ['memory', async () => memoryStore()],
  ['file', async () => fileStore({ directory: await temporaryDirectory() })],
]

describe.each(stores)('%s: the release of a hold that was broken', (_, make) => {
  async function clients(): Promise<
    readonly [ReturnType<typeof createLocks>, ReturnType<typeof createLocks>]
  > {
    const open = await make()
    const both = [createLocks(cas(open)), createLocks(cas(open))] as const
    onTestFinished(async () => void (await Promise.all(both.map((locks) => locks.close()))))
    return both
  }

  test.each(['before anybody took it', 'after another took and released it'])(
    'is LOCK_LOST %s',
    async (when) => {
      const [holder, operator] = await clients()
      const broken = async (): Promise<void> => {
        expect(await operator.lock('order').break()).not.toBeNull()
        if (when.startsWith('after')) await operator.with('order', () => undefined)
      }
      const lease = await holder.lock('order').acquire()
      await broken()
      await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
      await expect(holder.with('order', broken)).rejects.toMatchObject({ code: 'LOCK_LOST' })
      await holder.with('order', () => undefined)
    },
  )

  test('while another holds it is LOCK_LOST, and that one keeps it', async () => {
    const [holder, operator] = await clients()
    const lease = await holder.lock('order').acquire()
    await operator.lock('order').break()
    const next = await operator.lock('order').acquire()
    await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
    await next.extend()
    await next.release()
  })
})

test('a release whose answer was lost is a release: the name is free, and nothing is reported as lost', async () => {
  const { open, trouble } = troubled(memoryStore())
  const locks = createLocks(cas(open))
  onTestFinished(() => locks.close())
  const lease: Lease = await locks.lock('order').acquire()
  trouble.push('after')
  await lease.release()
  expect((await locks.inspect('order')).held).toBe(false)
})

test('of two operators that break one hold, one gets `broken`', async () => {
  const store = memoryStore()
  const holder = bare(store)
  await holder.take(holder.request({ ttlMs: 60_000 }))
  const operators = [bare(store), bare(store)]
  const { holder: seen } = await holder.adapter.inspect('order')
  if (seen === undefined) throw new Error('it is not held')
  const breakIt = async ({ adapter }: Bare): Promise<unknown> => adapter.break?.('order', seen)
  const outcomes = await Promise.all(operators.map(breakIt))
  expect(outcomes).toContain('broken')
  expect(outcomes).toContain('not-held')
})

test('an unreadable record is not adopted, released or renewed under an empty attempt id', async () => {
  const store = memoryStore()
  await store().put('order', '{"name":"order","attemptId":"x', undefined, true)
  const client = bare(store)
  const { adapter } = client
  const version = (await store().get('order'))?.version ?? 0n
  const nobody = { name: 'order', attemptId: '', fence: version, ttlMs: 1_000 }
  expect(await adapter.adopt?.(nobody, client.request())).toBe('lost')
  expect(await adapter.renew([{ grant: nobody, ttlMs: 1_000, lockDelayMs: 0 }])).toEqual(['lost'])
  expect(await adapter.release(nobody)).toBe('not-held')
  expect((await store().get('order'))?.version).toBe(version)
})
