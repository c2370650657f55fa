import { expect, test } from 'vitest'
import { createLocks } from '../../src/index.ts'
import type { AdapterFactory, Holder } from '../../src/index.ts'
import type { Adapter, Pruned } from '../../src/adapter/index.ts'
import { lockErrorOf, reasonOf } from '../support/harness.ts'
import { ScriptedStore } from '../support/scripted-adapter.ts'

/** A store with the operator methods in `more`. */
function storeWith(more: Partial<Adapter>): {
  readonly store: ScriptedStore
  readonly factory: AdapterFactory
} {
  const claims = { list: more.list !== undefined, break: more.break !== undefined }
  const store = new ScriptedStore({ capabilities: claims })
  return { store, factory: (host) => ({ ...store.factory(host), ...more }) }
}

test('a break whose first reply was lost counts as done', async () => {
  let tries = 0
  const { store, factory } = storeWith({
    async break(name) {
      tries += 1
      store.free(name)
      if (tries === 1) throw new Error('the reply was lost')
      return 'not-held'
    },
  })
  await using locks = createLocks(factory)
  store.seize('a')
  expect(await locks.lock('a').break()).toMatchObject({ owner: 'stranger' })
  expect(tries).toBe(2)
})

test('a break of a hold that is over by then is null', async () => {
  const { store, factory } = storeWith({ break: async () => 'not-held' })
  await using locks = createLocks(factory)
  store.seize('a')
  expect(await locks.lock('a').break()).toBeNull()
})

test('where the adapter cannot break a hold, the store is asked nothing', async () => {
  let asked = 0
  const { factory } = storeWith({
    async inspect(name) {
      asked += 1
      return { name, held: false }
    },
  })
  await using locks = createLocks(factory)
  const refused = locks.lock('a').break()
  expect((await lockErrorOf(refused)).code).toBe('LOCK_UNSUPPORTED')
  expect(asked).toBe(0)
})

test('with another fence than the holder has, nothing is asked of the store', async () => {
  const broken: Holder[] = []
  const { store, factory } = storeWith({
    async break(_, holder) {
      broken.push(holder)
      return 'broken'
    },
  })
  await using locks = createLocks(factory)
  store.seize('a')
  expect(await locks.lock('a').break({ fence: 77n })).toBeNull()
  expect(broken).toEqual([])
  expect(await locks.lock('a').break({ fence: 1n })).toMatchObject({ fence: 1n })
})

test('a client that is closed while it looks breaks nothing', async () => {
  let breaks = 0
  const { factory } = storeWith({
    async inspect(name) {
      void locks.close()
      return { name, held: true, holder: { owner: 'stranger', fence: 1n } }
    },
    async break() {
      breaks += 1
      return 'broken'
    },
  })
  const locks = createLocks(factory)
  expect((await lockErrorOf(locks.lock('a').break())).code).toBe('LOCK_CLOSED')
  expect(breaks).toBe(0)
})

test('bad arguments are refused before anything is touched', async () => {
  const { store, factory } = storeWith({ list: async () => [], break: async () => 'broken' })
  await using locks = createLocks(factory)
  for (const limit of [0, -1, 1.5, Number.NaN, Infinity])
    expect((await lockErrorOf(locks.list({ limit }))).code).toBe('LOCK_INVALID_ARGUMENT')
  // @ts-expect-error a fence is a bigint
  const wrong = locks.lock('a').break({ fence: 7 })
  expect((await lockErrorOf(wrong)).code).toBe('LOCK_INVALID_ARGUMENT')
  expect(store.totalCalls).toBe(0)
})

test('an adapter with nothing to say about its store has no findings', async () => {
  await using locks = createLocks(new ScriptedStore().factory)
  expect(await locks.diagnose()).toEqual([])
})

test('an outage shows, and a closed client refuses', async () => {
  const down = async (): Promise<never> => {
    throw new Error('connection refused')
  }
  const { factory } = storeWith({ list: down, diagnose: down })
  const locks = createLocks(factory, { storeTimeoutMs: 200 })
  expect((await lockErrorOf(locks.list())).code).toBe('LOCK_UNAVAILABLE')
  expect((await lockErrorOf(locks.diagnose())).code).toBe('LOCK_UNAVAILABLE')
  await locks.close()
  expect(await reasonOf(locks.list())).toMatchObject({ code: 'LOCK_CLOSED' })
  expect(await reasonOf(locks.diagnose())).toMatchObject({ code: 'LOCK_CLOSED' })
})

test('prune goes on until the store has no more, and answers how many in all', async () => {
  const idle: number[] = []
  const prune = async (idleMs: number): Promise<Pruned> => ({ pruned: 2, more: idle.push(idleMs) < 3 })
  const { factory } = storeWith({ prune })
  const locks = createLocks(factory)
  expect(await locks.prune()).toBe(6)
  expect(await locks.prune({ idleMs: 5 })).toBe(2)
  expect(idle).toEqual([86_400_000, 86_400_000, 86_400_000, 5])
  for (const idleMs of [-1, 1.5, Number.NaN, Infinity])
    expect((await lockErrorOf(locks.prune({ idleMs }))).code).toBe('LOCK_INVALID_ARGUMENT')
  await locks.close()
  expect(await reasonOf(locks.prune())).toMatchObject({ code: 'LOCK_CLOSED' })
})

test('prune of a store that keeps nothing is 0; an answer that makes no sense is a faulty adapter', async () => {
  const plain = createLocks(storeWith({}).factory)
  expect(await plain.prune()).toBe(0)
  await plain.close()
  for (const answer of [
    { pruned: -1, more: false },
    { pruned: Number.NaN, more: false },
    { pruned: 1 },
    undefined,
  ]) {
    // @ts-expect-error that is what is wrong with it
    const { factory } = storeWith({ prune: () => Promise.resolve(answer) })
    const locks = createLocks(factory)
    const error = await lockErrorOf(locks.prune())
    expect(error.code).toBe('LOCK_UNAVAILABLE')
    expect(error.message).toContain('the adapter is faulty')
    await locks.close()
  }
})

test('an unknown key of an operator call is refused with what is meant, before the store is asked', async () => {
  const calls: string[] = []
  const note =
    <T>(call: string, answer: T) =>
    async (): Promise<T> => {
      calls.push(call)
      return answer
    }
  const held = { name: 'a', held: true, holder: { owner: 'stranger', fence: 1n } }
  const { factory } = storeWith({
    inspect: note('inspect', held),
    break: note('break', 'broken' as const),
    list: note('list', []),
    prune: note('prune', { pruned: 0, more: false }),
  })
  await using locks = createLocks(factory)
  const lock = locks.lock('a')
  const typo = (options: object): object => options
  for (const [call, meant] of [
    [() => lock.break(typo({ fense: 1n })), 'did you mean fence?'],
    [() => lock.break(typo({ force: true, fence: 1n })), 'unknown key "force" in options; known: fence'],
    [() => locks.prune(typo({ idelMs: 5 })), 'did you mean idleMs?'],
    [() => locks.prune(typo({ name: ['a'] })), 'did you mean names?'],
    [() => locks.list(typo({ limt: 5 })), 'did you mean limit?'],
    [() => lock.break(typo([])), 'options must be an object, got an array'],
    [() => locks.list(typo(['a'])), 'options must be an object, got an array'],
  ] as const) {
    const error = await lockErrorOf(call())
    expect(error.code).toBe('LOCK_INVALID_ARGUMENT')
    expect(error.message).toContain(meant)
  }
  expect(calls).toEqual([])
})

test('the idle time of prune may be a string', async () => {
  const idle: number[] = []
  const { factory } = storeWith({
    async prune(idleMs) {
      idle.push(idleMs)
      return { pruned: 1, more: false }
    },
  })
  await using locks = createLocks(factory)
  expect(await locks.prune({ idleMs: '1h' })).toBe(1)
  expect(idle).toEqual([3_600_000])
  const typo: object = { idleMs: 'soon' }
  expect((await lockErrorOf(locks.prune(typo))).message).toContain("or a string such as '500ms'")
})
