import { expect, test } from 'vitest'
import { defaultOwner, isAttemptId, keptAttemptId, newAttemptId } from '../../src/adapter/attempt-id.ts'
import { harness } from '../support/harness.ts'

const uuid = '0123abcd-0000-4000-8000-0123456789ab'

test('attempt ids of a client are its uuid and a number that cannot be guessed', () => {
  const ids = Array.from({ length: 1_000 }, () => newAttemptId(uuid))
  expect(new Set(ids).size).toBe(1_000)
  for (const id of ids) expect(id.startsWith(`${uuid}:`) && isAttemptId(id), id).toBe(true)
  const numbers = ids.map((id) => BigInt(id.slice(37)))
  // The highest bit is random: a thousand equal ones do not happen by chance.
  const high = numbers.filter((number) => number >= 2n ** 62n).length
  expect(high).toBeGreaterThan(300)
  expect(high).toBeLessThan(700)
})

test('only the exact form is an attempt id', () => {
  for (const id of [`${uuid}:0`, `${uuid}:1`, `${uuid}:${2n ** 63n - 1n}`]) expect(isAttemptId(id)).toBe(true)
  const bad = [
    '',
    'hold',
    uuid,
    `${uuid}:`,
    `${uuid}:01`,
    `${uuid}:${2n ** 63n}`,
    `${uuid}:${10n ** 18n * 99n}`,
  ]
  const odd = [
    `${uuid}:1 `,
    ` ${uuid}:1`,
    `${uuid}:1\n`,
    `${uuid}:1e3`,
    `${uuid.toUpperCase()}:1`,
    `${uuid}:１`,
  ]
  for (const id of [...bad, ...odd, 5, null, undefined, {}, [`${uuid}:1`]])
    expect(isAttemptId(id), JSON.stringify(id)).toBe(false)
})

test('the default owner names the client and the attempt, and shows neither whole', () => {
  expect(defaultOwner(`${uuid}:17`)).toBe('0123abcd-4d2d4b08f404')
})

test('the id that keeps a released name is not that of its attempt, and still names the owner', () => {
  const attemptId = newAttemptId(uuid)
  const kept = keptAttemptId(attemptId)
  expect(isAttemptId(kept)).toBe(true)
  expect(kept).not.toBe(attemptId)
  expect(kept.slice(36)).toBe(attemptId.slice(36))
  expect(defaultOwner(kept)).toBe(defaultOwner(attemptId))
  expect(keptAttemptId(newAttemptId(uuid))).not.toBe(kept)
})

test('a lease, its holder and its errors show the default owner, not the attempt', async () => {
  const { store, locks } = harness()
  const lease = await locks.lock('a').acquire()
  const attemptId = store.holder('a') ?? ''
  expect(isAttemptId(attemptId)).toBe(true)
  expect(lease.owner).toBe(defaultOwner(attemptId))
  expect((await locks.inspect('a')).holder?.owner).toBe(lease.owner)
})
