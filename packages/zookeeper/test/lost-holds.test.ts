import { createLocks } from '@locks/core'
import { zookeeper } from '@locks/zookeeper'
import { expect, test } from 'vitest'
import { directory, lockName, testBed } from './bed.ts'
import { ms, rawClient } from './support.ts'

const bed = testBed()

/** The request that removes a node of a lock: operation 2, unlike one that asks for it. */
const isRemoval = (bytes: Buffer): boolean => {
  const at = bytes.lastIndexOf('/locks/')
  return at >= 12 && bytes.readInt32BE(at - 8) === 2
}

test.each(['before anybody took it', 'after another took and released it'])(
  'the release of a hold that was broken is LOCK_LOST %s',
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

test('while another holds it is LOCK_LOST, and that one keeps it', async () => {
  const [holder, operator] = [bed.open(), bed.open()]
  const name = lockName()
  const lease = await holder.lock(name).acquire()
  await operator.lock(name).break()
  const next = await operator.lock(name).acquire()
  await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
  await next.extend()
  await next.release()
})

test('the node of a hold that was removed by hand is LOCK_LOST at its release', async () => {
  const [locks, raw] = [bed.open(), await bed.raw()]
  const name = lockName()
  const lease = await locks.lock(name).acquire()
  const [node] = (await raw.children(directory(name))) ?? []
  await raw.remove(`${directory(name)}/${node}`)
  await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
})

test('a release whose reply was lost is repeated, and finding the node gone is then a release', async () => {
  const { locks, proxy } = await bed.wired({ sessionTimeoutMs: 60_000 })
  const raw = await bed.raw()
  const name = lockName()
  const lease = await locks.lock(name).acquire()
  const swallowed = proxy.swallowNextReply({ matching: isRemoval })
  await lease.release()
  await swallowed
  expect(await raw.children(directory(name))).toEqual([])
})

test('a bare release answers released once, whichever client frees the name', async () => {
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

test('a client that has sent two thousand million requests goes on to work', async () => {
  await using own = await rawClient(bed.servers, { sessionTimeout: 30_000 })
  const locks = createLocks(zookeeper({ client: own.client }), { storeTimeoutMs: ms(10_000) })
  // The library counts its requests by a signed number of 32 bits, and fails beyond it.
  own.client.connectionManager.xid = 2 ** 31 - 10
  for (let n = 0; n < 20; n += 1) await locks.with(lockName(), () => undefined)
  expect(own.client.connectionManager.xid).toBeLessThan(1_000)
  await locks.close()
})
