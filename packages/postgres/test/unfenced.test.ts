import { migrate } from '@locks/postgres'
import { eventually } from '@locks/core/conformance'
import { expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { connect, open, startServer } from './support/setup.ts'

// A client without fences has no tables and records nothing, yet no other strategy may grant its names.

const server = await startServer()
const { url } = server
const unfenced = { url, strategy: 'advisory', fencing: false }
const belongs = (owner: string, strategy: string): unknown =>
  expect.stringContaining(`belong to strategy ${owner}, and this client uses ${strategy}`)
const refusal = (owner: string, strategy: string): object => ({
  code: 'LOCK_INVALID_ARGUMENT',
  message: belongs(owner, strategy),
})

let places = 0
const newPlace = (): { readonly table: string } => ({ table: `unfenced_${(places += 1)}` })

test.each(['unique-key', 'row'])('while a client without fences is open, %s is refused', async (strategy) => {
  const place = newPlace()
  const mine = open({ ...unfenced, ...place })
  const lease = await mine.lock('order').acquire()
  // It creates the tables, and records nothing in them.
  const other = open({ url, strategy, ...place })
  await expect(other.lock('order').tryAcquire()).rejects.toMatchObject(refusal('advisory', strategy))
  await expect(other.inspect('order')).rejects.toMatchObject(refusal('advisory', strategy))
  expect(await other.diagnose()).toContainEqual(
    expect.objectContaining({
      check: 'strategy',
      level: 'warning',
      message: belongs('advisory', strategy),
    }),
  )
  await lease.release()
  await expect(other.lock('order').tryAcquire()).rejects.toMatchObject(refusal('advisory', strategy))
  // Advisory locks with fences exclude it, so they share the place and record their strategy.
  await open({ url, strategy: 'advisory', ...place }).with('order', () => undefined)
  await mine.close()
  await expect(other.lock('order').tryAcquire()).rejects.toMatchObject(refusal('advisory', strategy))
})

test('a place that a client without fences has left is free for another strategy', async () => {
  const place = newPlace()
  await migrate({ url, ...place })
  const mine = open({ ...unfenced, ...place })
  await mine.with('order', () => undefined)
  await mine.close()
  const other = open({ url, strategy: 'row', ...place })
  await eventually('the sessions have ended', scaled(10_000), () =>
    other
      .lock('order')
      .tryAcquire()
      .then(
        (lease) => lease !== null,
        () => false,
      ),
  )
})

test.each(['unique-key', 'row'])(
  'where %s is recorded, a client without fences is refused',
  async (strategy) => {
    const place = newPlace()
    const mine = open({ ...unfenced, ...place })
    await open({ url, strategy, ...place }).with('order', () => undefined)
    await expect(mine.lock('order').tryAcquire()).rejects.toMatchObject(refusal(strategy, 'advisory'))
    await expect(mine.inspect('order')).rejects.toMatchObject(refusal(strategy, 'advisory'))
    expect(await mine.diagnose()).toContainEqual(
      expect.objectContaining({ check: 'strategy', level: 'warning' }),
    )
  },
)

test('a client without fences reads the record again for every connection', async () => {
  const place = newPlace()
  const control = await connect(server)
  const mine = open({ ...unfenced, ...place })
  await mine.with('order', () => undefined)
  const ended = `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE mode = 'ShareLock' AND locktype = 'advisory'`
  await control.query(ended)
  const other = open({ url, strategy: 'unique-key', ...place })
  await eventually('the place is free', scaled(10_000), () =>
    other
      .lock('order')
      .tryAcquire()
      .then(
        (lease) => lease !== null,
        () => false,
      ),
  )
  await expect(mine.lock('order').tryAcquire()).rejects.toMatchObject(refusal('unique-key', 'advisory'))
})

test('of clients with and without fences that start at once, only those of one strategy get a lock', async () => {
  const place = newPlace()
  await migrate({ url, ...place })
  const clients = Array.from({ length: 12 }, (_, n) =>
    open(n % 2 === 0 ? { ...unfenced, ...place } : { url, strategy: 'unique-key', ...place }),
  )
  const granted = await Promise.all(
    clients.map(async (client, n) => {
      const held = await client
        .lock(`order:${n}`)
        .tryAcquire()
        .catch(() => null)
      return held === null ? [] : [n % 2]
    }),
  )
  expect(new Set(granted.flat()).size).toBe(1)
})
