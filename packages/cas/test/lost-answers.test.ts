import { memoryStore } from '@locks/cas'
import type { Put, StoreFactory } from '@locks/cas'
import { describe, expect, test } from 'vitest'
import { bare, troubled } from './support/bed.ts'

describe('an own write whose answer was lost', () => {
  test.each(['after', 'before', 'twice'] as const)(
    '%s: an attempt gets its lock, under one fence',
    async (lost) => {
      const { open, trouble } = troubled(memoryStore())
      const client = bare(open)
      const request = client.request()
      trouble.push(lost)
      const first = await client.adapter.attempt(request).catch(() => undefined)
      const again = await client.take(request)
      if (first !== undefined && 'fence' in first) expect(again.fence).toBe(first.fence)
      expect((await client.adapter.inspect('order')).holder).toMatchObject({ fence: again.fence })
      expect(await client.adapter.release(again)).toBe('released')
    },
  )

  test('a fence is handed out by a durable put only, and so when the answer to the first was lost', async () => {
    const store = memoryStore()
    const durable: boolean[] = []
    const { open, trouble } = troubled(() => {
      const inner = store()
      return {
        ...inner,
        put(...args) {
          durable.push(args[3])
          return inner.put(...args)
        },
      }
    })
    const client = bare(open)
    const request = client.request()
    trouble.push('after')
    await expect(client.adapter.attempt(request)).rejects.toThrow('lost')
    const grant = await client.take(request)
    // The first, one that meets it, and the one that is answered with the grant.
    expect(durable).toEqual([true, true, true])
    await client.adapter.renew([{ grant, ttlMs: 100, lockDelayMs: 0 }])
    expect(durable.at(-1)).toBe(false)
  })

  test.each(['after', 'before', 'twice'] as const)(
    '%s: a renewal succeeds at last, and a release is asked for until the name is free',
    async (lost) => {
      const { open, trouble } = troubled(memoryStore())
      const client = bare(open)
      const grant = await client.take(client.request())
      const renewal = { grant, ttlMs: 90_000, lockDelayMs: 0 }
      trouble.push(lost)
      if (lost !== 'twice') await expect(client.adapter.renew([renewal])).rejects.toThrow('lost')
      expect(await client.adapter.renew([renewal])).toEqual(['renewed'])
      trouble.push(lost)
      if (lost !== 'twice') await expect(client.adapter.release(grant)).rejects.toThrow('lost')
      // Only the call that frees the name answers `released`; core counts the other one as such after a lost answer.
      expect(await client.adapter.release(grant)).toBe(lost === 'after' ? 'not-held' : 'released')
      expect((await client.adapter.inspect('order')).held).toBe(false)
    },
  )

  test('a withdrawn put that is still on its way finds the version moved, and takes nothing', async () => {
    const store = memoryStore()
    const late: (() => Promise<Put>)[] = []
    const slow: StoreFactory = () => {
      const inner = store()
      let puts = 0
      return {
        ...inner,
        put(...args) {
          puts += 1
          if (puts > 1) return inner.put(...args)
          late.push(() => inner.put(...args))
          return Promise.reject(new Error('no answer'))
        },
      }
    }
    const client = bare(slow)
    const request = client.request()
    await expect(client.adapter.attempt(request)).rejects.toThrow('no answer')
    await client.adapter.withdraw?.(request)
    for (const arrive of late) expect(await arrive()).toMatchObject({ conflict: true })
    expect((await client.adapter.inspect('order')).held).toBe(false)
  })
})

test('an attempt that answers after it was withdrawn is withdrawn again, and leaves nothing', async () => {
  const store = memoryStore()
  let arrive: () => void = () => undefined
  const held = new Promise<void>((resolve) => (arrive = resolve))
  let puts = 0
  const slow: StoreFactory = () => {
    const inner = store()
    return {
      ...inner,
      async put(...args) {
        if (++puts === 1) await held
        return inner.put(...args)
      },
    }
  }
  const client = bare(slow)
  const request = client.request()
  const attempt = client.adapter.attempt(request)
  await client.adapter.withdraw?.(request)
  arrive()
  await attempt
  // As core does when an answer comes after storeTimeoutMs.
  await client.adapter.withdraw?.(request)
  expect((await client.adapter.inspect('order')).held).toBe(false)
})
