import { createLocks } from '@locks/core'
import { zookeeper } from '@locks/zookeeper'
import { expect, test } from 'vitest'
import { directory, lockName, testBed } from './support/bed.ts'
import { ms, rawClient } from './support/raw-client.ts'

const bed = testBed()

/** The request that removes a node of a lock: operation 2. */
const isRemoval = (bytes: Buffer): boolean => {
  const at = bytes.lastIndexOf('/locks/')
  return at >= 12 && bytes.readInt32BE(at - 8) === 2
}

test.each(['before another client acquires it', 'after another client acquired and released it'])(
  'the release of a broken hold is LOCK_LOST %s',
  async (when) => {
    const [holder, operator] = [bed.open(), bed.open()]
    const name = lockName()
    const broken = async (): Promise<void> => {
      expect(await operator.lock(name).break()).not.toBeNull()
      if (when.startsWith('after')) await operator.with(name, () => undefined)
    }
    const lease = await holder.lock(name).acquire()
    await broken()
    await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
    await expect(holder.with(name, broken)).rejects.toMatchObject({ code: 'LOCK_LOST' })
    await holder.with(name, () => undefined)
  },
)

test('the release of a broken hold is LOCK_LOST while another client holds the lock, which keeps it', async () => {
  const [holder, operator] = [bed.open(), bed.open()]
  const name = lockName()
  const lease = await holder.lock(name).acquire()
  await operator.lock(name).break()
  const next = await operator.lock(name).acquire()
  await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
  await next.extend()
  await next.release()
})

test('the release of a hold whose node was removed by hand is LOCK_LOST', async () => {
  const [locks, raw] = [bed.open(), await bed.raw()]
  const name = lockName()
  const lease = await locks.lock(name).acquire()
  const [node] = (await raw.children(directory(name))) ?? []
  await raw.remove(`${directory(name)}/${node}`)
  await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
})

test('a release whose reply was lost is repeated, and succeeds when the node is gone', async () => {
  const { locks, proxy } = await bed.wired({ sessionTimeoutMs: 60_000 })
  const raw = await bed.raw()
  const name = lockName()
  const lease = await locks.lock(name).acquire()
  const swallowed = proxy.swallowNextReply({ matching: isRemoval })
  await lease.release()
  await swallowed
  expect(await raw.children(directory(name))).toEqual([])
})

test('release of the bare adapter returns released once, whichever client sends it', async () => {
  const [first, second] = [bed.adapter(), bed.adapter()]
  for (const [ender, late] of [
    [first, second],
    [second, first],
  ] as const) {
    const grant = await first.take(first.request(lockName()))
    expect(await ender.adapter.release(grant)).toBe('released')
    expect(await late.adapter.release(grant)).toBe('not-held')
    expect(await ender.adapter.release(grant)).toBe('not-held')
  }
})

test('a client works beyond two billion requests', async () => {
  await using own = await rawClient(bed.servers, { sessionTimeout: 30_000 })
  const locks = createLocks(zookeeper({ client: own.client }), { storeTimeoutMs: ms(10_000) })
  // The library numbers requests with a signed 32-bit number, and fails beyond it.
  own.client.connectionManager.xid = 2 ** 31 - 10
  for (let n = 0; n < 20; n += 1) await locks.with(lockName(), () => undefined)
  expect(own.client.connectionManager.xid).toBeLessThan(1_000)
  await locks.close()
})
