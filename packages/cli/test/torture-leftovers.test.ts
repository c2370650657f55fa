import { createLocks } from '@locks/core'
import { faulty } from '@locks/core/conformance'
import { memory } from '@locks/memory'
import { expect, test } from 'vitest'
import { leftovers } from '../src/torture/leftovers.ts'
import { checkEnd } from '../src/torture/liveness.ts'

test('a look at the store that fails is repeated: only a name that stays held is left over', async () => {
  const { factory, faults } = faulty(memory())
  const locks = createLocks(factory)
  faults.inject('inspect', 'fail', 1)
  expect(await leftovers(locks, ['free'], 1_000)).toEqual([])
  expect(faults.calls.inspect).toBe(2)
  await locks.close()
})

test('a name that stays held is reported, and so is a store that never answers', async () => {
  const store = memory()
  const { factory, faults } = faulty(store)
  const [locks, holder] = [createLocks(factory), createLocks(store)]
  const lease = await holder.lock('held').acquire()
  const [held] = await leftovers(locks, ['held'], 100)
  expect(checkEnd([], [String(held)])).toMatchObject([{ check: 'left held', message: held }])
  expect(held).toMatch(/^held could not be acquired and released within 100 ms .* is held by /)
  await lease.release()
  faults.inject('inspect', 'fail')
  expect(await leftovers(locks, ['free'], 100)).toHaveLength(1)
  await locks.close()
  await holder.close()
})
