import { openLocks } from '@locks/core'
import { zookeeper } from '@locks/zookeeper'
import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { lockName, testBed } from './bed.ts'
import { ms } from './support.ts'

const bed = testBed()
const auth = { scheme: 'digest', credentials: 'alice:wonderland' }

test('with auth, nodes belong to the user: other users are denied, which is not contention', async () => {
  const basePath = '/of-alice'
  const [alice, alsoAlice] = [bed.open({ auth, basePath }), bed.open({ auth, basePath })]
  const stranger = bed.open({ basePath }, { storeTimeoutMs: ms(2_000) })
  const name = lockName()
  // Connected before it has to be answered in time.
  await stranger.inspect(name)
  const lease = await alice.lock(name).acquire()
  expect(await alsoAlice.lock(name).tryAcquire()).toBeNull()
  const denied = await stranger
    .lock(name)
    .tryAcquire()
    .catch((error: unknown) => error)
  expect(denied).toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  expect(String(denied)).toContain('NO_AUTH')
  await lease.release()
})

test('a user who may not create the directory of a lock gets a permission error, not "missing"', async () => {
  const basePath = '/of-alice-3'
  await bed.open({ auth, basePath }).with(lockName(), () => undefined)
  const stranger = bed.open({ basePath }).lock(lockName()).tryAcquire()
  await expect(stranger).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  await expect(stranger).rejects.toThrow('NO_AUTH')
})

test('requests made while a connection comes back do not run ahead of its credentials', async () => {
  const { locks, proxy } = await bed.wired({ auth, basePath: '/of-alice-2', sessionTimeoutMs: 60_000 })
  const name = lockName()
  for (let round = 0; round < 20; round += 1) {
    proxy.reset()
    const lease = await locks.lock(name).acquire({ waitMs: ms(10_000) })
    await lease.release()
  }
})

test('credentials that the server refuses are named as the reason', async () => {
  const locks = bed.open({ auth: { scheme: 'unheard-of', credentials: 'secret' } })
  const refused: unknown = await locks
    .lock(lockName())
    .tryAcquire()
    .catch((caught: unknown) => caught)
  expect(refused).toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  expect(String(refused)).toContain('AUTH_FAILED')
  expect(inspect(refused)).not.toContain('secret')
})

test('a user who may only read sees who holds a lock, and can neither take, break nor release it', async () => {
  const [read, all] = [1, 31]
  const acl = [
    { scheme: 'auth', id: '', permissions: all },
    { scheme: 'world', id: 'anyone', permissions: read },
  ]
  const basePath = '/readable'
  const [alice, reader] = [
    bed.open({ auth, acl, basePath }),
    bed.open({ basePath }, { storeTimeoutMs: ms(2_000) }),
  ]
  const [held, free] = [lockName('held'), lockName('free')]
  await alice.with(free, () => undefined)
  const lease = await alice.lock(held).acquire()
  expect((await reader.inspect(held)).holder?.fence).toBe(lease.fence)
  expect((await reader.list()).map(({ name }) => name)).toEqual([held])
  const denied = { code: 'LOCK_INVALID_ARGUMENT' }
  await expect(reader.lock(held).break()).rejects.toMatchObject(denied)
  await expect(reader.lock(free).tryAcquire()).rejects.toMatchObject(denied)
  expect(await reader.lock(held).tryAcquire()).toBeNull()
  await lease.extend()
  await lease.release()
})

test('an ACL can be given entry by entry', async () => {
  const acl = [{ scheme: 'world', id: 'anyone', permissions: 31 }]
  const locks = bed.open({ auth, acl, basePath: '/open' })
  const other = bed.open({ basePath: '/open' })
  const name = lockName()
  await locks.with(name, async () => expect(await other.lock(name).tryAcquire()).toBeNull())
  await other.with(name, () => undefined)
})

test('a URL has servers, chroot, credentials and options', async () => {
  const raw = await bed.raw()
  await raw.createDirectory('/chroot')
  const url = `zookeeper://bob:p%40ss@${bed.servers}/chroot?sessionTimeoutMs=5000&basePath=/deep/down&acl=open`
  const locks = await openLocks(url)
  await locks.with('a', async () => expect(await raw.children('/chroot/deep/down')).toEqual(['a']))
  await locks.close()
  const missing = await openLocks(`zookeeper://${bed.servers}/no-such-chroot`)
  const refused = missing.lock('a').tryAcquire()
  await expect(refused).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  await expect(refused).rejects.toThrow('chroot')
  await missing.close()
})

test('what cannot be meant is refused by name, and no message shows a secret', () => {
  const servers = 'localhost:2181'
  const bad: readonly [string, Record<string, unknown>][] = [
    ['one of url, servers, client', {}],
    ['one of url, servers, client', { servers, url: `zookeeper://${servers}` }],
    ['client must be', { client: {} }],
    ['servers', { servers: 'http://secret@x' }],
    ['servers', { servers: ['a'] }],
    ['from 1 to 65535', { servers: 'a:1,b:65536' }],
    ['from 1 to 65535', { url: 'zookeeper://u:secret@a:0' }],
    ['chroot', { servers: 'a:1/b//c' }],
    ['url must be', { url: 'zookeeper://u:secret@' }],
    ['unknown key "nope" in url', { url: 'zookeeper://u:secret@a:1?nope=1' }],
    ['sessionTimeoutMs', { url: 'zookeeper://u:secret@a:1?sessionTimeoutMs=soon' }],
    ['sessionTimeoutMs', { servers, sessionTimeoutMs: 2.5 }],
    ['rawPath', { servers, rawPath: 'yes' }],
    ['auth', { servers, auth: { scheme: 'digest', credentials: { secret: 'secret' } } }],
    ['acl', { servers, acl: 'secret' }],
    ['acl', { servers, acl: [{ scheme: 'world', id: 'anyone', permissions: 32 }] }],
    ['"basepath"', { servers, basepath: '/secret' }],
  ]
  for (const [naming, options] of bad) {
    const error: unknown = (() => {
      try {
        return zookeeper(options)
      } catch (caught) {
        return caught
      }
    })()
    expect(error, naming).toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
    expect(String(error)).toContain(naming)
    expect(inspect(error)).not.toContain('secret')
  }
})
