import { tairStore } from '@locks/cas'
import type { VersionedStore } from '@locks/cas'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../../conformance/test-support/until.ts'
import { startTairStub } from './support/tair-stub.ts'
import type { TairStub } from './support/tair-stub.ts'

async function setUp(): Promise<{ stub: TairStub; store: VersionedStore }> {
  const stub = await startTairStub()
  onTestFinished(() => stub.close())
  const store = tairStore({ url: stub.url, prefix: 'p:' })()
  onTestFinished(() => store.close())
  return { stub, store }
}

test('a tair: URL connects by import as it does by config', async () => {
  const stub = await startTairStub()
  onTestFinished(() => stub.close())
  const store = tairStore({ url: stub.url.replace(/^redis:/, 'tair:') })()
  onTestFinished(() => store.close())
  expect(await store.get('order')).toBeUndefined()
})

/** The server's microseconds, so that no deleted key comes back at an old version. */
const seed = /^1\d{15}$/

test("its clock is the server's", async () => {
  const { store } = await setUp()
  // The stub has this clock, and not that of `Date`, which is set now and then.
  const here = (): number => performance.timeOrigin + performance.now()
  const before = here()
  const now = (await store.now?.('order')) ?? 0
  expect(now).toBeGreaterThanOrEqual(before - 1)
  expect(now).toBeLessThanOrEqual(here() + 1)
})

describe('the commands on the wire', () => {
  test("of a new key: EXCAS finds it missing, EXSET NX ABS makes it at the server's time", async () => {
    const { stub, store } = await setUp()
    const put = await store.put('order', 'value', undefined, true)
    expect(stub.commands).toEqual([
      ['EXCAS', 'p:order', 'value', '0'],
      ['TIME'],
      ['EXSET', 'p:order', 'value', 'NX', 'ABS', expect.stringMatching(seed)],
    ])
    expect('version' in put && String(put.version)).toBe(stub.commands[2]?.[5])
  })

  test('of a present key: one EXCAS, and a notification that no call waits for', async () => {
    const { stub, store } = await setUp()
    stub.records.set('p:order', { value: 'old', version: 7 })
    expect(await store.put('order', 'new', 7n, true)).toEqual({ version: 8n })
    expect(await store.get('order')).toEqual({ value: 'new', version: 8n })
    const bell = ['PUBLISH', 'p:changed:0:order', '']
    await until(() => stub.commands.some(([command]) => command === bell[0]))
    expect(stub.commands).toContainEqual(bell)
    expect(stub.commands.filter(([command]) => command !== 'PUBLISH')).toEqual([
      ['EXCAS', 'p:order', 'new', '7'],
      ['EXGET', 'p:order'],
    ])
  })

  test('a cycle on a key that is not known yet takes 3 of them', async () => {
    const { stub, store } = await setUp()
    stub.records.set('p:order', { value: 'free', version: 7 })
    const seen = await store.put('order', 'held', undefined, true)
    expect(seen).toEqual({ conflict: true, current: { value: 'free', version: 7n } })
    expect(await store.put('order', 'held', 7n, true)).toEqual({ version: 8n })
    expect(await store.put('order', 'free', 8n, false)).toEqual({ version: 9n })
    expect(stub.commands.filter(([command]) => command !== 'PUBLISH')).toHaveLength(3)
  })

  test('never carries VER or a ttl', async () => {
    const { stub, store } = await setUp()
    const made = await store.put('order', 'a', undefined, true)
    if (!('version' in made)) throw new Error('it was there')
    await store.put('order', 'b', made.version, true)
    await store.put('order', 'c', made.version, true)
    await store.put('missing', 'c', 5n, true)
    const words = stub.commands.flatMap(([, , , ...options]) => options.map((word) => word.toUpperCase()))
    for (const word of ['VER', 'EX', 'PX', 'EXAT', 'PXAT', 'KEEPTTL']) expect(words).not.toContain(word)
  })
})

describe('what the module answers', () => {
  test('a put over a version of a missing key is refused, where EXSET VER would succeed', async () => {
    const { stub, store } = await setUp()
    expect(await store.put('order', 'value', 5n, true)).toEqual({ conflict: true, current: undefined })
    expect(stub.records.size).toBe(0)
    // So it is: the stub keeps to the published semantics.
    expect(stub.run(['EXSET', 'p:order', 'value', 'VER', '5'])).toBe('+OK\r\n')
    expect(stub.records.get('p:order')?.version).toBe(1)
  })

  test('EXCAS with -1, with a conflict and with success are three different things', async () => {
    const { stub, store } = await setUp()
    expect(await store.put('order', 'x', 1n, true)).toEqual({ conflict: true, current: undefined })
    stub.records.set('p:order', { value: 'there', version: 3 })
    expect(await store.put('order', 'x', 1n, true)).toEqual({
      conflict: true,
      current: { value: 'there', version: 3n },
    })
    expect(await store.put('order', 'x', 3n, true)).toEqual({ version: 4n })
  })

  test('a value that reads like a reply is still a value', async () => {
    const { stub, store } = await setUp()
    for (const value of ['OK', '-1', '', '0']) {
      stub.records.set('p:order', { value, version: 3 })
      expect(await store.get('order')).toEqual({ value, version: 3n })
      expect(await store.put('order', 'x', 2n, true)).toMatchObject({ current: { value } })
    }
  })

  test('two clients create one key at once: EXSET NX lets one of them, the other gets its value', async () => {
    const { stub, store } = await setUp()
    stub.beforeNext('EXSET', () => void stub.records.set('p:order', { value: 'theirs', version: 9 }))
    expect(await store.put('order', 'mine', undefined, true)).toEqual({
      conflict: true,
      current: { value: 'theirs', version: 9n },
    })
  })

  test('a server without the commands is refused, and the error says what to do', async () => {
    const { stub, store } = await setUp()
    stub.unknown = true
    const message: unknown = expect.stringMatching(
      /no command EX.*so no lock can be taken; load the module TairString/,
    )
    const refusal = { code: 'LOCK_INVALID_ARGUMENT', message }
    await expect(store.get('order')).rejects.toMatchObject(refusal)
    await expect(store.put('order', 'x', undefined, true)).rejects.toMatchObject(refusal)
  })

  test('a change wakes a waiter', async () => {
    const { store } = await setUp()
    const made = await store.put('order', 'a', undefined, true)
    if (!('version' in made)) throw new Error('it was there')
    let ring: () => void = () => undefined
    const rung = new Promise<void>((resolve) => (ring = resolve))
    await store.watch?.('order', () => ring())
    await store.put('order', 'b', made.version, true)
    await rung
  })
})
