import { createLocks } from '@locks/core'
import type { Lease, Locks } from '@locks/core'
import { loadAdapter } from '@locks/core/adapter'
import { realpath, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { copyOf } from '../../../conformance/mutants/mutant.ts'
import type { Edit } from '../../../conformance/mutants/mutant.ts'
import type { Server } from '../../../conformance/services/index.ts'
import { lockName, testBed } from './support/bed.ts'
import { ms, pass } from './support/raw-client.ts'
import { allServe, leaderOf } from './support/subjects.ts'

// Only a server of an ensemble can be cut off from the one that counts the session timeout. With longer ticks it tells
// that one less often of its clients, which hides the mistake in fewer rounds.
const bed = testBed('zookeeper-ensemble', { tickTime: 500 })
const timeout = ms(120_000)
const sessionTimeoutMs = ms(3_000)

function isHeld(lease: Lease): boolean {
  try {
    lease.assertHeld()
    return true
  } catch {
    return false
  }
}

/** Whether two clients held at once in one of so many rounds. */
async function overlap(adapter: string, rounds: number): Promise<boolean> {
  const { servers } = bed.service
  const leader = await leaderOf(servers)
  const connected = servers.find((server) => server !== leader)
  if (connected === undefined) throw new Error('no follower')
  const open = async ({ host, port }: Server): Promise<Locks> => {
    const factory = await loadAdapter({ adapter, servers: `${host}:${port}`, sessionTimeoutMs })
    const locks = createLocks(factory, { storeTimeoutMs: ms(30_000) })
    onTestFinished(() => locks.close())
    return locks
  }
  for (let round = 0; round < rounds; round += 1)
    if (await overlapsOnce(await open(connected), await open(leader), connected)) return true
  return false
}

async function overlapsOnce(paused: Locks, other: Locks, server: Server): Promise<boolean> {
  const name = lockName()
  await paused.with(lockName(), () => undefined)
  await pass(300)
  const endsAt = performance.now() + sessionTimeoutMs * 0.85
  while (performance.now() < endsAt);
  const lease = await paused.lock(name).acquire()
  await server.pause()
  try {
    const next = await other.lock(name).acquire({ waitMs: ms(30_000) })
    const both = isHeld(lease)
    await next.release()
    return both
  } finally {
    await server.resume()
    await allServe(bed.service.servers)
  }
}

test(
  'a lease that was granted right after a pause ends before its session does, even if its server is cut off then',
  { timeout },
  async () => expect(await overlap('@locks/zookeeper', 3)).toBe(false),
)

test('that test catches: a request is sent however old the last sign of life is', { timeout }, async () => {
  const edit: Edit = { file: 'zookeeper/session.js', find: '!this.#signs.hasLapsed(now)', replace: 'true' }
  const copy = await copyOf(['core', 'zookeeper'], [edit])
  onTestFinished(copy.dispose)
  const client = await realpath(join(import.meta.dirname, '../node_modules/node-zookeeper-client'))
  await symlink(client, join(copy.root, 'node_modules/node-zookeeper-client'))
  expect(await overlap(copy.pathOf('zookeeper', 'index.js'), 12)).toBe(true)
})
