import type { Finding } from '@locks/core'
import { expect, test } from 'vitest'
import { fourLetterWord, startService } from '../../../conformance/services/index.ts'
import { directory, lockName, testBed } from './support/bed.ts'
import { ms, until } from './support/raw-client.ts'

const bed = testBed()

test('list decodes names, counts waiters, and passes over what is free or no lock', async () => {
  const basePath = '/listed'
  const [holder, waiter, operator] = [bed.open({ basePath }), bed.open({ basePath }), bed.open({ basePath })]
  const raw = await bed.raw()
  const names = ['a/b', '.', '\u{1f512}', '100%', 'plain']
  const leases = await Promise.all(names.map((name) => holder.lock(name).acquire({ owner: `of ${name}` })))
  await holder.with('free', () => undefined)
  await raw.createDirectory(`${basePath}/%2`)
  await raw.createDirectory(`${basePath}/%2/lock-0000000000`)
  const gone = new AbortController()
  const waiting = waiter.lock('plain').acquire({ signal: gone.signal, waitMs: ms(30_000) })
  await until('it waits', 10_000, async () => (await operator.inspect('plain')).waiters === 1)
  const listed = await operator.list()
  expect(listed.map(({ name }) => name).toSorted()).toEqual(names.toSorted())
  for (const { name, holder: described, waiters } of listed) {
    expect(described?.owner).toBe(`of ${name}`)
    expect(described?.fence).toBe(leases[names.indexOf(name)]?.fence)
    expect(waiters).toBe(name === 'plain' ? 1 : 0)
  }
  expect(await operator.list({ limit: 2 })).toHaveLength(2)
  gone.abort(new Error('enough'))
  await expect(waiting).rejects.toThrow('enough')
})

test('list is empty under an unused base path; with rawPath it shows the locks directly below it', async () => {
  expect(await bed.open({ basePath: '/never/used' }).list()).toEqual([])
  const locks = bed.open({ rawPath: true, basePath: '/curator' })
  const raw = await bed.raw()
  await locks.with('/curator/idle', () => undefined)
  await raw.createDirectory('/curator/no-lock')
  await raw.createDirectory('/curator/no-lock/child')
  await locks.with('/curator/held', async () => {
    expect((await locks.list()).map(({ name }) => name)).toEqual(['/curator/held'])
    // The base path may be a lock too, whose nodes are not the directories of others.
    await locks.with('/curator', async () => expect(await locks.list()).toHaveLength(1))
  })
})

test('a broken lock goes to the next waiter; its holder learns of it at the next renewal', async () => {
  const [holder, next] = [bed.open({ sessionTimeoutMs: 30_000 }), bed.open()]
  const [operator, raw] = [bed.open(), await bed.raw()]
  const name = lockName()
  const lease = await holder.lock(name).acquire({ owner: 'stuck' })
  const waiting = next.lock(name).acquire({ waitMs: ms(20_000) })
  await until('it waits', 10_000, async () => (await operator.inspect(name)).waiters === 1)
  const broken = await operator.lock(name).break()
  expect(broken).toMatchObject({ owner: 'stuck', fence: lease.fence })
  const successor = await waiting
  expect(successor.fence).toBeGreaterThan(lease.fence)
  await expect(lease.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' })
  expect(await raw.children(directory(name))).toHaveLength(1)
  successor.assertHeld()
  await successor.release()
})

/** The messages of a level, by check. */
async function findings(
  locks: { diagnose(): Promise<readonly Finding[]> },
  level: Finding['level'],
): Promise<ReadonlyMap<string, string>> {
  const all = await locks.diagnose()
  return new Map(all.filter((one) => one.level === level).map(({ check, message }) => [check, message]))
}

test('diagnose checks servers, timeouts and permissions, and changes nothing', async () => {
  const locks = bed.open({ sessionTimeoutMs: 30_000, basePath: '/not/there/yet' })
  const nodes = async (): Promise<string | undefined> =>
    /Node count: \d+/.exec(await fourLetterWord(bed.server, 'srvr'))?.[0]
  await locks.inspect('any')
  const before = await nodes()
  expect([...(await findings(locks, 'ok')).keys()]).toEqual([
    'round-trip',
    'session-timeout',
    'tick-time',
    'permissions',
    'leftovers',
  ])
  expect(await findings(locks, 'warning')).toEqual(new Map([['ensemble', 'there is only one server']]))
  expect(await nodes()).toBe(before)
})

test('diagnose reports a session that is too short for the ticks, or not as configured', async () => {
  const settings = { tickTime: 10_000, minSessionTimeout: 20_000 }
  await using slow = await startService('zookeeper', { settings })
  const locks = bed.open({ servers: slow.url.replace('zookeeper://', ''), sessionTimeoutMs: 5_000 })
  expect((await findings(locks, 'warning')).get('session-timeout')).toMatch(/is 5000 ms.* grant 20000 ms$/)
  expect((await findings(locks, 'danger')).get('tick-time')).toContain('10000 ms')
})

test('diagnose reports missing permissions', async () => {
  const basePath = '/closed'
  const auth = { scheme: 'digest', credentials: 'alice:wonderland' }
  await bed.open({ auth, basePath }).with('a', () => undefined)
  const stranger = bed.open({ basePath })
  expect((await findings(stranger, 'warning')).get('permissions')).toContain('cannot be created')
  expect((await findings(bed.open({ auth, basePath }), 'ok')).has('permissions')).toBe(true)
})

test('diagnose reports that a server does not answer administrative commands', async () => {
  const settings = { '4lw.commands.whitelist': 'ruok,srvr' }
  await using silent = await startService('zookeeper', { settings })
  const locks = bed.open({ servers: silent.url.replace('zookeeper://', '') })
  const unread = await findings(locks, 'warning')
  expect(unread.get('tick-time')).toContain('cannot be read')
  expect(unread.get('ensemble')).toBe('there is only one server')
})
