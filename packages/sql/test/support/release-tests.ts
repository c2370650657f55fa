import type { Locks } from '@locks/core'
import type { TestAdapter } from '@locks/core/conformance'
import { expect, test } from 'vitest'

interface ReleaseBed {
  readonly open: () => Locks
  readonly bare: () => TestAdapter
  /** Makes the hold of a name expire. */
  readonly expire: (name: string) => Promise<unknown>
}

/** What a release and a hand-over of a lease in a table owe. */
export function releaseTests({ open, bare, expire }: ReleaseBed): void {
  test('a hold that was broken and used by another client since ends as lost, although the name is free', async () => {
    const [holder, operator, other] = [open(), open(), open()]
    const lease = await holder.lock('broken').acquire()
    await operator.lock('broken').break()
    await other.with('broken', () => undefined)
    await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
    const work = holder.with('broken', async () => {
      await operator.lock('broken').break()
      await other.with('broken', () => undefined)
    })
    await expect(work).rejects.toMatchObject({ code: 'LOCK_LOST' })
  })

  test('a release of a name that is free, unknown, expired or held by another attempt is not held', async () => {
    const [client, other] = [bare(), bare()]
    const grant = await client.take(client.request('once'))
    expect(await client.adapter.release(grant)).toBe('released')
    expect(await client.adapter.release(grant)).toBe('not-held')
    expect(await client.adapter.release({ ...grant, name: 'never' })).toBe('not-held')
    const taken = await other.take(other.request('once'))
    expect(await client.adapter.release(grant)).toBe('not-held')
    expect(await other.adapter.release(taken)).toBe('released')
    const expired = await client.take(client.request('once'))
    await expire('once')
    expect(await client.adapter.release(expired)).toBe('not-held')
  })

  test('a serialised lease without a valid attempt id or fence continues nothing', async () => {
    const [from, to] = [bare(), bare()]
    const grant = await from.take(from.request('forged'))
    for (const attemptId of ['', 'hold', '\0', `${grant.attemptId}0x`, `${grant.attemptId} `])
      expect(await to.adapter.adopt?.({ ...grant, attemptId }, to.request('forged'))).toBe('lost')
    for (const fence of [0n, -1n, 2n ** 63n, 2n ** 64n])
      expect(await to.adapter.adopt?.({ ...grant, fence }, to.request('forged'))).toBe('lost')
    expect(await to.adapter.adopt?.(grant, to.request('forged'))).toMatchObject({ fence: grant.fence })
  })
}
