import { expect, expectTypeOf, test } from 'vitest'
import { capabilities } from '../../src/adapter/capabilities.ts'
import type { Capabilities, CapabilitiesOf } from '../../src/adapter/capabilities.ts'

test('what is not stated is the least that a store can do', () => {
  const given = { wait: 'notify', list: true, minTtlMs: 10 } as const
  const all: CapabilitiesOf<typeof given> = capabilities(given)
  expect(all).toEqual({
    scope: 'cluster',
    kind: 'lease',
    fencing: 'durable',
    wait: 'notify',
    fairness: 'none',
    handover: false,
    lockDelay: false,
    minHold: false,
    list: true,
    break: false,
    modes: ['exclusive'],
    minTtlMs: 10,
    maxNameBytes: 1024,
  })
})

test('types keep the very values, stated or not', () => {
  const all = capabilities({ wait: 'notify', list: true })
  expectTypeOf(all).toExtend<Capabilities>()
  expectTypeOf(all.wait).toEqualTypeOf<'notify'>()
  expectTypeOf(all.list).toEqualTypeOf<true>()
  expectTypeOf(all.handover).toEqualTypeOf<false>()
  // @ts-expect-error an unknown word
  capabilities({ wait: 'shout' })
})
