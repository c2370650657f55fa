import { createLocks, isLockError, openLocks } from '@locks/core'
import { loadAdapter } from '@locks/core/adapter'
import { cas, fileStore, fromConfig, memoryStore, redisStore, tairStore } from '@locks/cas'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

import { settle } from '../src/options.ts'
import { serverOf } from '../src/stores/redis-place.ts'
import { temporaryDirectory } from './support/bed.ts'

async function refusal(options: Readonly<Record<string, unknown>>): Promise<string> {
  try {
    await fromConfig(options)
    return 'accepted'
  } catch (error) {
    return isLockError(error, 'LOCK_INVALID_ARGUMENT') ? error.message : String(error)
  }
}

test.each([
  [{}, /store must be one of memory, file, redis, tair/],
  [{ store: 'sqlite' }, /store must be one of/],
  [{ store: 'file' }, /directory must be a path/],
  [{ store: 'file', directory: 5 }, /directory must be a path/],
  [{ store: 'file', directory: '/a', dir: '/a' }, /unknown key "dir"; known: store, directory, /],
  [{ store: 'file', directory: '/a', trustFileSystem: 'yes' }, /trustFileSystem must be true or false/],
  [{ store: 'memory', directory: '/a' }, /directory goes only with store file/],
  [{ store: 'memory', name: 5 }, /name must be a string/],
  [{ store: 'redis' }, /give exactly one of url, client/],
  [{ store: 'redis', url: 'tair://host' }, /url of store redis must begin with redis: or rediss:/],
  [
    { store: 'redis', url: 'redis://:sesame@host', prefx: '' },
    /unknown key "prefx"; known: .*; did you mean prefix\?/,
  ],
  [{ store: 'tair', url: 'http://u:sesame@host' }, /url of store tair must begin with tair:/],
  [{ store: 'tair', url: 'tair://host', prefix: 1 }, /prefix must be a string/],
  [{ url: 'file:/a', prefix: 'a' }, /prefix goes only with store redis or tair/],
  [{ store: 'redis', url: 'nonsense' }, /url must be a URL/],
  [{ url: 'file:' }, /url must name a directory/],
  [{ url: 'file://elsewhere/a' }, /a directory of this host/],
  [{ url: 'file:%zz' }, /percent-encoding/],
  [{ url: 'file:/a/#b' }, /no options after \? or #/],
  [{ url: 'file:///a?b=c' }, /no options after \? or #/],
  [{ url: 'file:a#b' }, /no options after \? or #/],
  [{ url: 'file:/a', directory: '/a' }, /give exactly one of url, directory/],
  [{ url: 'tair://u:sesame@h#x' }, /url must not have a #/],
  [{ url: 'tair://h?x=sesame' }, /unknown key "x" in url; known: prefix, fenceIdleMs/],
  [{ url: 'tair://h?prefx=a:' }, /unknown key "prefx" in url; .*; did you mean prefix\?/],
  [{ url: 'tair://h?keyPrefix=a:' }, /unknown key "keyPrefix" in url/],
  [{ url: 'tair://h?fenceIdleMs=soon' }, /fenceIdleMs must be 0 or a whole number/],
  [{ url: 'tair://h?prefix=a&prefix=b' }, /prefix stands twice in url/],
  [{ store: 'redis', url: 'redis://h?keyPrefix=a:' }, /unknown key "keyPrefix" in url/],
  [{ store: 'redis', url: 'redis://h?db=1' }, /unknown key "db" in url/],
  [{ store: 'redis', url: 'rediss://:sesame@h/0#x' }, /url must not have a #/],
  [{ url: 'redis://u:sesame@host' }, /url must begin with file: or tair:/],
])('%j is refused by name, and shows no password', async (options, expected) => {
  const message = await refusal(options)
  expect(message).toMatch(expected)
  expect(message).not.toContain('sesame')
})

test.each(['', '//'])('file:%s/… is a directory', async (slashes) => {
  const directory = await temporaryDirectory()
  const [one, two] = [
    await openLocks(`file:${slashes}${directory}`),
    createLocks(cas(fileStore({ directory }))),
  ]
  onTestFinished(async () => void (await Promise.all([one.close(), two.close()])))
  await one.lock('order').acquire()
  expect(await two.lock('order').tryAcquire()).toBeNull()
  expect(one.capabilities).toMatchObject({ scope: 'host', wait: 'notify', fencing: 'durable' })
})

test('a file: URL reaches a directory whose name contains ? and # by their escapes', async () => {
  const parent = await temporaryDirectory()
  const directory = join(parent, 'a?b#c')
  await mkdir(directory)
  const [byUrl, byPath] = [
    await openLocks(`file:${parent}/a%3Fb%23c`),
    createLocks(cas(fileStore({ directory }))),
  ]
  onTestFinished(async () => void (await Promise.all([byUrl.close(), byPath.close()])))
  await byUrl.lock('order').acquire()
  expect(await byPath.lock('order').tryAcquire()).toBeNull()
})

test('tair: URLs come here', async () => {
  const locks = createLocks(await loadAdapter('tair://127.0.0.1:1'), { storeTimeoutMs: 300 })
  expect(locks.capabilities).toMatchObject({ scope: 'cluster', fencing: 'clock-assisted' })
  await expect(locks.lock('order').tryAcquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  await locks.close()
})

test('a relative directory and two ways to name a server are refused', () => {
  expect(() => fileStore({ directory: 'relative' })).toThrow('directory must be an absolute path')
  expect(() => redisStore({})()).toThrow('give exactly one of url, client')
})

test('options in a url of redis and tair count', async () => {
  const url = 'redis://127.0.0.1:1/1?prefix=a:&fenceIdleMs=1h'
  expect(settle({ store: 'redis', url }).fenceIdleMs).toBe(3_600_000)
  expect(settle({ url: url.replace('redis', 'tair') }).fenceIdleMs).toBe(3_600_000)
  // As in every adapter: what a program gives comes before the URL.
  expect(settle({ store: 'redis', url, fenceIdleMs: 0 }).fenceIdleMs).toBe(0)
  for (const store of [redisStore, tairStore]) {
    expect(() => store({ url: 'redis://h?keyPrefix=a' })()).toThrow(/unknown key "keyPrefix" in url/)
    expect(() => store({ url })()).toThrow(/fenceIdleMs .* cas\(store, \{ fenceIdleMs \}\)/)
  }
  const { place, prefix } = serverOf({ url: 'redis://u:p%3F@127.0.0.1:1/1?prefix=a:' })
  expect(place).toEqual({ url: 'redis://u:p%3F@127.0.0.1:1/1' })
  expect(prefix).toBe('a:')
  expect(serverOf({ url: 'redis://h?prefix=a:', prefix: 'b:' }).prefix).toBe('b:')
})

test('memory stores of one name are one store throughout the process', async () => {
  const [one, two] = [
    createLocks(await fromConfig({ store: 'memory', name: 'm' })),
    createLocks(await fromConfig({ store: 'memory', name: 'm' })),
  ]
  await one.lock('order').acquire()
  expect(await two.lock('order').tryAcquire()).toBeNull()
  expect(await createLocks(cas(memoryStore())).lock('order').tryAcquire()).not.toBeNull()
  await Promise.all([one.close(), two.close()])
})
