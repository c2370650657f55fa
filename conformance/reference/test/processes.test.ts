import { createLocks } from '@locks/core'
import { loadAdapter } from '@locks/core/adapter'
import { assertInTime } from '@locks/core/conformance'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { bare, startClient, startServer, until } from './setup.ts'

test('two processes never update the same counter at once', async () => {
  const server = await startServer()
  const directory = await mkdtemp(join(tmpdir(), 'locks-reference-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const counter = join(directory, 'counter')
  await writeFile(counter, '0')
  const children = [await startClient(server, 5_000), await startClient(server, 5_000)]
  const runs = children.map((child, n) => {
    const files = { process: `p${n}`, file: join(directory, `p${n}.jsonl`), counter }
    return child.call('contend', { lock: 'counter', tasks: 2, cycles: 50, waitMs: 20_000, ...files })
  })
  const updates = (await Promise.all(runs)).reduce((sum, run) => sum + run.updates, 0)
  expect(updates).toBe(200)
  expect(await readFile(counter, 'utf8')).toBe('200')
})

test('the lock of a killed holder goes to a waiter within its ttl, with a higher fence', async () => {
  const ttlMs = 800
  const server = await startServer()
  const [holder, waiter] = [await startClient(server, ttlMs), await startClient(server, ttlMs)]
  const { adapter } = bare(server)
  const held = await holder.call('acquire', { lock: 'order' })
  const turn = waiter.call('acquire', { lock: 'order' })
  await until('it waits', async () => (await adapter.inspect('order')).waiters === 1)
  const aliveAt = performance.now()
  await holder.kill()
  const killedAt = performance.now()
  const { held: stillHeld, holder: by } = await adapter.inspect('order')
  // It was renewed a third of the ttl before, at the latest.
  if (by?.fence !== held.fence) await assertInTime('the look', ttlMs / 2, performance.now() - aliveAt)
  expect({ stillHeld, fence: by?.fence }).toEqual({ stillHeld: true, fence: held.fence })
  const next = await turn
  const bound = { ms: ttlMs + 250, waitsMs: ttlMs, from: 'ttlMs + 250 ms' }
  await assertInTime('granted to the next', bound, performance.now() - killedAt)
  expect(next.fence).toBeGreaterThan(held.fence)
})

test('nobody waits behind a killed waiter', async () => {
  const server = await startServer()
  const [holder, dead, waiter] = [
    await startClient(server, 20_000),
    await startClient(server, 20_000),
    await startClient(server, 20_000),
  ]
  const { adapter } = bare(server)
  const waiters = (count: number) => async () => (await adapter.inspect('order')).waiters === count
  const { lease } = await holder.call('acquire', { lock: 'order' })
  const lost = dead.call('acquire', { lock: 'order' })
  await until('one waits', waiters(1))
  const turn = waiter.call('acquire', { lock: 'order' })
  await until('two wait', waiters(2))
  await dead.kill()
  await expect(lost).rejects.toThrow('ended')
  const releasedAt = performance.now()
  await until('one waits', waiters(1))
  await holder.call('release', { lease })
  await turn
  await assertInTime('granted to the next', 1_000, performance.now() - releasedAt)
})

test('an idle connection does not keep a process alive', async () => {
  const server = await startServer()
  const child = await startClient(server, 5_000)
  const { lease } = await child.call('acquire', { lock: 'order' })
  await child.call('release', { lease })
  await child.call('disconnect', {})
  expect(await child.exited).toBe(0)
})

test('requests that a hung server leaves unanswered do not keep a process alive', async () => {
  const server = await startServer()
  const child = await startClient(server, 1_000, 500)
  await child.call('acquire', { lock: 'order' })
  server.pause()
  await expect(child.call('tryAcquire', { lock: 'other' })).rejects.toMatchObject({
    code: 'LOCK_UNAVAILABLE',
  })
  await child.call('disconnect', {})
  expect(await child.exited).toBe(0)
})

test('a server that hangs leaves an acquire to core, one that is gone is an outage', async () => {
  const server = await startServer()
  const locks = createLocks(await loadAdapter(server.config), { storeTimeoutMs: 500 })
  onTestFinished(() => locks.close())
  await locks.with('order', () => undefined)
  server.pause()
  await expect(locks.lock('order').tryAcquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  server.resume()
  await locks.with('order', () => undefined)
  await server.kill()
  await expect(locks.lock('order').acquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
})
