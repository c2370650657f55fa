import { expect, test } from 'vitest'
import { encodeName, inOrder, isInOrder, isPath, prefixOf } from '../src/paths.ts'
import { lockName, testBed } from './bed.ts'
import { ms, until } from './support.ts'

const bed = testBed()

test('any name becomes one path segment, and no two names the same', () => {
  const odd = [
    '.',
    '..',
    '...',
    '/',
    '/a',
    'a/b',
    'a%2Fb',
    '%',
    '%2E',
    '\0',
    '\n',
    '\u{1f512}',
    'é',
    'zookeeper',
    ' ',
  ]
  const encoded = odd.map(encodeName)
  for (const segment of encoded) expect(isPath(`/${segment}`) && !segment.includes('/')).toBe(true)
  expect(new Set(encoded).size).toBe(odd.length)
  expect(encodeName('order:42')).toBe('order:42')
  expect(encodeName('.')).toBe('%2E')
})

test('the server accepts every kind of name, the longest included', async () => {
  const locks = bed.open()
  for (const name of ['.', '..', '/', '\0', '\u{1f512}', '\ue000', '/'.repeat(1024), 'zookeeper'])
    await locks.with(name, ({ fence }) => expect(fence).toBeGreaterThan(0n))
})

test('a path that the server would refuse or drop the connection for is refused locally, at once', async () => {
  const locks = bed.open({ rawPath: true })
  for (const name of ['relative', '/a//b', '/a/../b', '/a/', '/a\u0001', '/\u{1f512}', '/a/lock-0000000001'])
    await expect(locks.lock(name).acquire()).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  for (const basePath of ['locks', '/', `/${'a'.repeat(1_100_000)}`])
    expect(() => bed.open({ basePath })).toThrow('basePath')
})

test('rawPath uses the very path of a Curator lock, and leaves its directory alone', async () => {
  const [locks, raw] = [bed.open({ rawPath: true }), await bed.raw()]
  const path = `/app-${encodeName(lockName())}/mutex`
  const lease = await locks.lock(path).acquire({ waitMs: ms(5_000) })
  expect(await raw.children(path)).toEqual([expect.stringMatching(/^_c_[0-9a-f-]{36}-lock-\d{10}$/)])
  await lease.release()
  await locks.close()
  expect(await raw.children(path)).toEqual([])
})

test('rawPath: a name below another one is not its holder, whichever way it sorts', async () => {
  const [locks, other, raw] = [bed.open({ rawPath: true }), bed.open({ rawPath: true }), await bed.raw()]
  const jobs = `/jobs-${encodeName(lockName())}`
  for (const below of ['eu', '0', '_c_x', 'lock-eu', 'clock-0000000000'])
    await locks.with(`${jobs}/${below}`, () => undefined)
  expect(await other.inspect(jobs)).toMatchObject({ held: false, waiters: 0 })
  const lease = await locks.lock(jobs).tryAcquire()
  expect(lease?.fence).toBeGreaterThan(0n)
  expect((await other.inspect(jobs)).waiters).toBe(0)
  expect(await other.lock(jobs).tryAcquire()).toBeNull()
  await other.with(`${jobs}/eu`, () => undefined)
  expect((await other.lock(jobs).break())?.fence).toBe(lease?.fence)
  await expect(lease?.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' })
  await other.with(jobs, async () => {
    expect((await raw.children(jobs))?.length).toBe(6)
  })
})

test.each(['lock-', '_c_0b7b5d67-21ce-4de7-8e63-5a7de1e4bf9e-lock-', 'x-lock-'])(
  'rawPath: a node %s of another program holds the lock until it is gone',
  async (prefix) => {
    const [locks, raw] = [bed.open({ rawPath: true }), await bed.raw()]
    const path = `/shared-${encodeName(lockName())}`
    await raw.createDirectory(path)
    const node = await raw.createMember(`${path}/${prefix}`)
    expect(await locks.lock(path).tryAcquire()).toBeNull()
    const waiting = locks.lock(path).acquire({ waitMs: ms(20_000) })
    await until('it waits', 10_000, async () => (await locks.inspect(path)).waiters === 1)
    await raw.remove(node)
    await (await waiting).release()
  },
)

test("the order is Curator's: by the text after the last lock-, whoever made the node", () => {
  const children = [
    '_c_b-lock-0000000002',
    'x-lock-0000000001',
    'eu',
    'lock-eu',
    '_c_a-lock-0000000010',
    '_c_d-lock--000000001',
    'lock-0000000000',
    '_c_c-lock--2147483648',
  ]
  expect(inOrder(children)).toEqual([
    '_c_d-lock--000000001',
    '_c_c-lock--2147483648',
    'lock-0000000000',
    'x-lock-0000000001',
    '_c_b-lock-0000000002',
    '_c_a-lock-0000000010',
  ])
})

test('a sequence near its end is refused rather than sorted differently from Java', () => {
  expect(isInOrder('_c_a-lock-0000000000')).toBe(true)
  expect(isInOrder('_c_a-lock-2147483647')).toBe(false)
  expect(isInOrder('_c_a-lock--2147483648')).toBe(false)
})

test('a try has one uuid, however often it is sent', () => {
  const uuid = /^_c_[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-lock-$/
  expect(prefixOf('client:1')).toMatch(uuid)
  expect(prefixOf('client:1')).toBe(prefixOf('client:1'))
  expect(prefixOf('client:1')).not.toBe(prefixOf('client:2'))
})
