import fc from 'fast-check'
import { Command, Redis } from 'ioredis'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { startService } from '../../../conformance/services/index.ts'
import { slotOf } from '../src/drivers/slots.ts'
import { layoutOf, nameOf } from '../src/record.ts'
import type { RedisOptions } from '@locks/redis'
import { at, connect, queued, uniqueName } from './support/bed.ts'

const service = await startService('redis')
const cluster = await startService('redis-cluster')
afterAll(() => Promise.all([service.close(), cluster.close()]))
const nodes = cluster.servers.map(({ host, port }) => ({ host, port }))

describe.each<readonly [string, RedisOptions]>([
  ['one server', at(service.server('redis'))],
  ['a Cluster', { cluster: { nodes }, prefix: '' }],
])('on %s', (_, options) => {
  const plain = uniqueName()

  test.each([
    ['a name', plain, `{${plain}}`],
    ['a name in braces', `{${plain}}`, plain],
  ])('the queue of %s is not that of its double with or without them', async (_name, wanted, double) => {
    const [holder, waiter, other] = [connect(options), connect(options), connect(options)]
    const lease = await holder.lock(wanted).acquire()
    const turn = waiter.lock(wanted).acquire({ waitMs: 60_000 })
    await queued(holder, wanted)
    const free = await other.lock(double).tryAcquire()
    expect(free).not.toBeNull()
    expect(await holder.inspect(wanted)).toMatchObject({ holder: { fence: lease.fence }, waiters: 1 })
    await free?.release()
    expect(await holder.inspect(wanted)).toMatchObject({ holder: { fence: lease.fence }, waiters: 1 })
    await lease.release()
    await (await turn).release()
  })
})

test('a name that is the key of the queue of another is refused while that one is waited for', async () => {
  const options = at(service.server('redis'))
  const [holder, waiter, other] = [connect(options), connect(options), connect(options)]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire()
  const turn = waiter.lock(lock).acquire({ waitMs: 60_000 })
  await queued(holder, lock)
  const wrong = other.lock(`locks_queue:{${lock}}`).tryAcquire()
  await expect(wrong).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  await lease.release()
  await (await turn).release()
})

/** Short, of what the layout is made of, so that those that differ in a brace only are met often. */
const name = fc
  .array(
    fc.constantFrom('{', '}', ':', 'x', '%', 'locks', 'locks_name', 'locks_queue', 'redisson_lock_token'),
    {
      minLength: 1,
      maxLength: 6,
    },
  )
  .map((parts) => parts.join(''))

/** Two names, often one within the other. */
const twoNames = fc
  .tuple(
    name,
    fc.oneof(
      name.map((other) => () => other),
      fc.constantFrom(...wrappers()),
    ),
  )
  .map(([one, other]) => [one, other(one)] as const)
  .filter(([one, other]) => one !== other)

function wrappers(): ((inner: string) => string)[] {
  return [
    (inner) => `{${inner}}`,
    (inner) => `:${inner}`,
    (inner) => `:{${inner}}`,
    (inner) => `locks_name:{${encodeURIComponent(inner)}}`,
    (inner) => layoutOf(inner, false).queue,
    (inner) => layoutOf(inner, true).queue,
  ]
}

const numRuns = 5_000

test.each([false, true])(
  'no two names share a lock, a queue or a channel of grants (Cluster: %s)',
  (sharded) => {
    const client = '11111111-2222-3333-4444-555555555555'
    fc.assert(
      fc.property(twoNames, ([one, other]) => {
        const [a, b] = [layoutOf(one, sharded), layoutOf(other, sharded)]
        expect(a.lock).not.toBe(b.lock)
        expect(a.queue).not.toBe(b.queue)
        expect(nameOf(a.lock, sharded)).toBe(one)
        // On one server a client has one channel for all its locks.
        if (sharded) expect(a.grants + client).not.toBe(b.grants + client)
      }),
      { numRuns },
    )
  },
)

test('all that a lock needs on a Cluster is in one slot, whatever its name', () => {
  fc.assert(
    fc.property(name, (any) => {
      const { lock, token, queue, redisson, grants } = layoutOf(any, true)
      const keys = [lock, token, queue, redisson, `${grants}client`]
      expect(new Set(keys.map(slotOf)).size).toBe(1)
      // Where ioredis is wrong, all go to the same node still, which sends them on.
      expect(new Set(keys.map((key) => new Command('get', [key]).getSlot())).size).toBe(1)
    }),
    { numRuns },
  )
})

test('behind the default prefix the hash tag of a name decides its slot, and all its keys share that', () => {
  const { lock, token, queue, redisson, grants } = layoutOf('locks:{tenant}:job', true)
  expect(lock).toBe('locks:{tenant}:job')
  for (const key of [lock, token, queue, redisson, `${grants}client`])
    expect(slotOf(key)).toBe(slotOf('tenant'))
})

test('a key is in the slot that the server says, also where ioredis is wrong', async () => {
  const client = new Redis({ ...nodes[0] })
  onTestFinished(() => client.disconnect())
  const odd = fc.oneof(name, fc.string({ unit: 'binary' }))
  const keys = ['', '{}', '{}{a}', '{a', '\ud800', ...fc.sample(odd, 10_000)]
  const answers = await client.pipeline(keys.map((key) => ['cluster', 'KEYSLOT', key])).exec()
  expect(keys.map(slotOf)).toEqual(answers?.map(([, slot]) => slot))
})
