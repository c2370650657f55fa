import { openLocks } from '@locks/core'
import { zookeeper } from '@locks/zookeeper'
import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { directoryOf } from '../src/paths.ts'
import { lockName, testBed } from './support/bed.ts'
import { ms } from './support/raw-client.ts'

const bed = testBed()
const auth = { scheme: 'digest', credentials: 'alice:wonderland' }

test('with auth, nodes belong to the user: another user is denied, not told that the lock is held', async () => {
  const basePath = '/of-alice'
  const [alice, alsoAlice] = [bed.open({ auth, basePath }), bed.open({ auth, basePath })]
  const stranger = bed.open({ basePath })
  const name = lockName()
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

test('a client that may not create the directory of a lock is denied, not told that it is missing', async () => {
  const basePath = '/of-alice-3'
  await bed.open({ auth, basePath }).with(lockName(), () => undefined)
  const stranger = bed.open({ basePath }).lock(lockName()).tryAcquire()
  await expect(stranger).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  await expect(stranger).rejects.toThrow('NO_AUTH')
})

test('requests made during a reconnection are not sent before the credentials', async () => {
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

test('a user with read permission sees the holder of a lock, and can neither acquire nor break it', async () => {
  const [read, all] = [1, 31]
  const acl = [
    { scheme: 'auth', id: '', permissions: all },
    { scheme: 'world', id: 'anyone', permissions: read },
  ]
  const basePath = '/readable'
  const [alice, reader] = [bed.open({ auth, acl, basePath }), bed.open({ basePath })]
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

test('a user with read permission cannot release a lock, and learns no attempt id', async () => {
  const acl = [
    { scheme: 'auth', id: '', permissions: 31 },
    { scheme: 'world', id: 'anyone', permissions: 1 },
  ]
  const basePath = '/read-only'
  const [alice, reader] = [bed.adapter({ auth, acl, basePath }), bed.adapter({ basePath })]
  const name = lockName()
  const wanted = alice.request(name)
  const grant = await alice.take(wanted)
  const raw = await bed.raw()
  const directory = directoryOf(name, { basePath, rawPath: false })
  const nodes = (await raw.children(directory)) ?? []
  expect(nodes).toHaveLength(1)
  for (const node of nodes) {
    const path = `${directory}/${node}`
    const data = await raw.data(path)
    // Of the id it shows the client, which is no secret, and not the number.
    const [, number = wanted.attemptId] = wanted.attemptId.split(':')
    expect(`${path} ${data}`).not.toContain(number)
    await expect(raw.remove(path)).rejects.toThrow('NO_AUTH')
  }
  // Not even with the id: the node cannot be deleted.
  for (const attemptId of [wanted.attemptId, reader.request(name).attemptId])
    expect(await reader.adapter.release({ ...grant, attemptId }).catch(() => 'refused')).not.toBe('released')
  expect((await reader.adapter.inspect(name)).holder?.fence).toBe(grant.fence)
  expect(await alice.renew({ grant, ttlMs: grant.ttlMs, lockDelayMs: 0 })).toBe('renewed')
  expect(await alice.adapter.release(grant)).toBe('released')
})

test('an ACL can be a list of entries', async () => {
  const acl = [{ scheme: 'world', id: 'anyone', permissions: 31 }]
  const locks = bed.open({ auth, acl, basePath: '/open' })
  const other = bed.open({ basePath: '/open' })
  const name = lockName()
  await locks.with(name, async () => expect(await other.lock(name).tryAcquire()).toBeNull())
  await other.with(name, () => undefined)
})

test('a URL sets servers, chroot, credentials and options', async () => {
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

test('an invalid option is named in the error, and no message shows a secret', () => {
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
