import { describe, expect, test } from 'vitest'
import { readSequencer, writeSequencer } from '../../src/api/sequencer.ts'
import { fc } from '../support/fast-check.ts'
import { callUntyped, codeOf, harness, reasonOf } from '../support/harness.ts'

describe('a sequencer', () => {
  test('is true while its hold is the current one, and false after', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    const { sequencer } = lease
    expect(await locks.checkSequencer(sequencer)).toBe(true)
    await lease.release()
    expect(await locks.checkSequencer(sequencer)).toBe(false)
    await locks.lock('a').acquire()
    expect(await locks.checkSequencer(sequencer)).toBe(false)
    expect(store.calls.inspect).toBe(3)
  })

  test('is the same for every lease of one hold', async () => {
    const { locks } = harness()
    const me = { owner: 'me' }
    const first = await locks.lock('a').acquire(me)
    expect((await locks.lock('a').acquire(me)).sequencer).toBe(first.sequencer)
  })

  test('cannot be checked where fencing is switched off', async () => {
    const { store, locks } = harness({ store: { capabilities: { fencing: 'none' } } })
    const { sequencer } = await locks.lock('a').acquire()
    expect(codeOf(await reasonOf(locks.checkSequencer(sequencer)))).toBe('LOCK_UNSUPPORTED')
    expect(store.calls.inspect).toBe(0)
  })

  test('reads back what was written, any name and fence', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', minLength: 1 }),
        fc.bigInt({ min: 0n, max: 2n ** 100n }),
        (name, fence) => {
          const sequencer = { name, mode: 'exclusive', fence } as const
          expect(readSequencer(writeSequencer(sequencer))).toEqual(sequencer)
        },
      ),
    )
  })

  test.each([
    ...[
      '',
      'v1',
      'v2.exclusive.1.YQ',
      'v1.shared.1.YQ',
      'v1.exclusive.-1.YQ',
      'v1.exclusive.1.',
      'v1.exclusive.1.A',
    ],
    ...[
      'v1.exclusive.1.YQ==',
      'v1.exclusive.1.YQ\n',
      'v1.exclusive.1.Y Q',
      `v1.exclusive.1.${'YWFh'.repeat(400)}`,
    ],
    ...[undefined, null, 5, {}, ['v1.exclusive.1.YQ']],
  ])('%j is refused before the store is touched', async (text) => {
    const { locks, store } = harness()
    expect(codeOf(await reasonOf(callUntyped(locks, 'checkSequencer', text)))).toBe('LOCK_INVALID_ARGUMENT')
    expect(store.totalCalls).toBe(0)
  })
})
