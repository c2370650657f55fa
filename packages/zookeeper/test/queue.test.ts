import { assertInTime } from '@locks/core/conformance'
import { expect, test } from 'vitest'
import { lossOf } from '../../../conformance/test-support/clients.ts'
import { directory, lockName, testBed } from './support/bed.ts'
import { ms, pass, rawClient, until } from './support/raw-client.ts'

const bed = testBed()

/** For so long the directory of a free lock stays. */
const LINGER_MS = 1_000

test('a predecessor that vanished before it could be watched is not waited for', async () => {
  const [holder, waiter] = [bed.adapter(), bed.adapter()]
  const name = lockName()
  const held = await holder.take(holder.request(name))
  const wanted = waiter.request(name)
  expect(await waiter.adapter.attempt(wanted)).toMatchObject({ busy: true })
  // After the attempt has read the queue and before the wait sets its watch.
  await holder.adapter.release(held)
  const signal = new AbortController().signal
  const granted = await waiter.adapter.wait?.(wanted, ms(10_000), signal)
  expect(granted?.fence).toBeGreaterThan(held.fence)
})

test('a waiting predecessor that dies does not cause an early grant', async () => {
  const [holder, doomed, last] = [bed.open(), bed.adapter(), bed.open()]
  const name = lockName()
  const lease = await holder.lock(name).acquire()
  await doomed.adapter.attempt(doomed.request(name))
  let granted = false
  const waiting = last.lock(name).acquire({ waitMs: ms(20_000) })
  void waiting.then(() => (granted = true))
  await until('two wait', 5_000, async () => (await holder.inspect(name)).waiters === 2)
  await doomed.adapter.close()
  await until('one waits', 5_000, async () => (await holder.inspect(name)).waiters === 1)
  // The queue has moved up by now: an event that is mistaken for a grant would show.
  await pass(300)
  expect(granted).toBe(false)
  lease.assertHeld()
  await lease.release()
  expect((await waiting).fence).toBeGreaterThan(lease.fence)
})

test('a directory that was removed between two acquires is created again', async () => {
  const [locks, raw] = [bed.open(), await bed.raw()]
  const name = lockName()
  const fences: bigint[] = []
  for (let round = 0; round < 5; round += 1) {
    // The client has just used the directory and relies on it.
    await locks.with(name, ({ fence }) => void fences.push(fence))
    // After a second the client has removed it itself.
    await raw.remove(directory(name)).catch((error: unknown) => expect(String(error)).toContain('NO_NODE'))
  }
  expect(fences.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(fences)
  expect(new Set(fences).size).toBe(5)
})

test('acquires succeed while another client removes every empty directory', async () => {
  const [locks, other, raw] = [bed.open(), bed.open(), await bed.raw()]
  const name = lockName()
  let done = false
  let removed = 0
  const janitor = (async () => {
    while (!done)
      await raw.remove(directory(name)).then(
        () => (removed += 1),
        () => undefined,
      )
  })()
  let inside = 0
  const enter = async (): Promise<void> => {
    inside += 1
    expect(inside).toBe(1)
    await new Promise((resolve) => setImmediate(resolve))
    inside -= 1
  }
  // One client waits and one only tries, so that the directory is empty, and removed, from time to time.
  try {
    // More often where the janitor hardly ever has a turn.
    for (let n = 0; n < 100 || (removed <= 10 && n < 2_000); n += 1) {
      const trying = other.lock(name).tryAcquire()
      const tried = trying.then((lease) => lease?.release())
      await locks.with(name, { waitMs: ms(20_000) }, enter)
      await tried
    }
  } finally {
    done = true
    await janitor
  }
  expect(removed).toBeGreaterThan(10)
})

test('a try that finds the lock held does not block others, however slow its next request is', async () => {
  await using slow = await rawClient(bed.servers)
  const [refused, holder, next] = [bed.adapter({ client: slow.client }), bed.open(), bed.open()]
  const name = lockName()
  let arrive: () => void = () => undefined
  const onItsWay = new Promise<void>((resolve) => {
    const remove = slow.client.remove.bind(slow.client)
    slow.client.remove = (path, version, callback) => {
      resolve()
      arrive = () => remove(path, version, callback)
    }
  })
  const lease = await holder.lock(name).acquire()
  const answered = refused.adapter.attempt(refused.request(name, { willWait: false }))
  await Promise.race([answered, onItsWay])
  await lease.release()
  const state = await next.inspect(name)
  const granted = await next.lock(name).tryAcquire()
  arrive()
  expect(await answered).toMatchObject({ busy: true })
  expect(state.held).toBe(false)
  expect(granted?.fence).toBeGreaterThan(lease.fence)
})

test('a try that finds the lock held creates no node', async () => {
  const [holder, other, raw] = [bed.open(), bed.open(), await bed.raw()]
  const name = lockName()
  await holder.lock(name).acquire()
  for (let n = 0; n < 3; n += 1) expect(await other.lock(name).tryAcquire()).toBeNull()
  // The server counts the nodes that were created in a directory.
  expect(await raw.createMember(`${directory(name)}/lock-`)).toMatch(/-0{9}1$/)
})

test('the directory of a free lock is removed soon, that of a held lock stays', async () => {
  const [locks, raw] = [bed.open(), await bed.raw()]
  const [free, held] = [lockName('free'), lockName('held')]
  const lease = await locks.lock(held).acquire()
  const usedAt = performance.now()
  await locks.with(free, () => undefined)
  const left = await raw.children(directory(free))
  // Unless this was a late look.
  if (left === undefined) await assertInTime('the look', LINGER_MS, performance.now() - usedAt)
  expect(left).toEqual([])
  await until('removed', 5_000, async () => (await raw.children(directory(free))) === undefined)
  expect(await raw.children(directory(held))).toHaveLength(1)
  await lease.release()
  await locks.close()
  expect(await raw.children(directory(held))).toBeUndefined()
})

test('the directory of a lock that was freed during an outage is removed after it', async () => {
  const { locks, proxy } = await bed.wired({ sessionTimeoutMs: 60_000 }, { storeTimeoutMs: ms(300) })
  const raw = await bed.raw()
  const [freed, released] = [lockName('freed'), lockName('released')]
  const lease = await locks.lock(released).acquire()
  await locks.with(freed, () => undefined)
  proxy.refuse()
  await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  // Longer than an idle directory lingers.
  await pass(1_500)
  expect(await raw.children(directory(freed))).toEqual([])
  proxy.pass()
  for (const name of [freed, released])
    await until('removed', 20_000, async () => (await raw.children(directory(name))) === undefined)
})

test('a lease whose node was removed by hand is lost at the next renewal', async () => {
  const [locks, raw] = [bed.open({ sessionTimeoutMs: ms(6_000) }), await bed.raw()]
  const [broken, kept] = [lockName('broken'), lockName('kept')]
  const [lease, other] = [await locks.lock(broken).acquire(), await locks.lock(kept).acquire()]
  const children = await raw.children(directory(broken))
  const lost = lossOf(lease)
  await raw.remove(`${directory(broken)}/${children?.[0]}`)
  await lost
  expect(lease.signal.reason).toMatchObject({ code: 'LOCK_LOST' })
  other.assertHeld()
})

test('inspect shows a holder whose node another program created', async () => {
  const [locks, raw] = [bed.open(), await bed.raw()]
  const name = lockName()
  await locks.with(name, () => undefined)
  const node = await raw.createMember(`${directory(name)}/_c_0f6a3c8e-0000-4000-8000-000000000000-lock-`)
  const state = await locks.inspect(name)
  expect(state).toMatchObject({ held: true, waiters: 0, holder: { owner: node.split('/').at(-1) } })
  expect(await locks.lock(name).tryAcquire()).toBeNull()
  await raw.remove(node)
  expect((await locks.inspect(name)).held).toBe(false)
})
