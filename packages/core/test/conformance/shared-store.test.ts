import assert from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { loadAdapter } from '../../src/adapter/index.ts'
import { conformance } from '../../src/conformance/conformance.ts'
import { assertSharedStore } from '../../src/conformance/shared-store.ts'
import { openTestAdapter } from '../../src/conformance/test-adapter.ts'

const moduleAt = (name: string): string =>
  fileURLToPath(new URL(`../support/modules/${name}.js`, import.meta.url))
/** Its `fromConfig` makes a new store for each call. */
const separate = { adapter: moduleAt('plain-adapter') }
const shared = { adapter: moduleAt('shared-adapter') }
const message = /two clients of one config do not share a store/

test('an adapter that makes a store for each client fails rules with that reason', async () => {
  const cases = await conformance({ name: 'separate', config: separate })
  for (const failing of ['OWN-1', 'OWN-2']) {
    const one = cases.find(({ id }) => id === failing)
    await expect(one?.run()).rejects.toThrow(message)
  }
})

test('a name that the check uses is reported to the test runner', async () => {
  const names: string[] = []
  const cases = await conformance({ name: 'separate', config: separate })
  const one = cases.find(({ id }) => id === 'OWN-1')
  await expect(one?.run({ onName: (name) => names.push(name) })).rejects.toThrow(message)
  expect(names.at(-1)).toMatch(/^conformance:shared:/)
})

test('clients that share a store pass, and the name is free afterwards', async () => {
  await assertSharedStore(shared, 'shared', 1_000)
  const { adapter } = openTestAdapter(await loadAdapter(shared))
  expect(await adapter.inspect('shared')).toMatchObject({ held: false })
})

test('any other failure is left to the rules', async () => {
  await assertSharedStore({ adapter: moduleAt('no-adapter') }, 'shared', 1_000)
})

test('an adapter that a test passes as an object has no config to check', async () => {
  const cases = await conformance({ name: 'given', config: separate, adapter: await loadAdapter(shared) })
  const failure: unknown = await cases
    .find(({ id }) => id === 'OWN-1')
    ?.run()
    .catch((error: unknown) => error)
  // The store frees a name for any attempt: the rule itself has run.
  expect(failure).toBeInstanceOf(assert.AssertionError)
  expect(String(failure)).not.toMatch(message)
})
