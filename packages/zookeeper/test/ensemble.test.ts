import { assertInTime } from '@locks/core/conformance'
import { expect, test } from 'vitest'
import { zookeeperMode } from '../../../conformance/services/index.ts'
import type { Server } from '../../../conformance/services/index.ts'
import { lossOf } from '../../../conformance/test-support/clients.ts'
import { lockName, testBed } from './support/bed.ts'
import { allServe, leaderOf } from './support/subjects.ts'
import { expectLoss, ms, until } from './support/raw-client.ts'

const bed = testBed('zookeeper-ensemble')
const timeout = ms(120_000)

interface Load {
  /** How many grants there were so far. */
  grants(): number
  stop(): Promise<void>
}

/** Clients that contend until `stop`, and fail if two of them hold at once or a fence does not rise. */
function contend(name: string, clients: number): Load {
  let [going, grants, inside] = [true, 0, 0]
  let fence = 0n
  const tasks = Array.from({ length: clients }, async () => {
    const locks = bed.open({ sessionTimeoutMs: ms(6_000) }, { storeTimeoutMs: ms(60_000) })
    while (going) {
      const lease = await locks.lock(name).acquire({ waitMs: ms(60_000) })
      expect(lease.fence).toBeGreaterThan(fence)
      fence = lease.fence
      inside += 1
      if (lease.state !== 'lost') expect(inside).toBe(1)
      await new Promise((resolve) => setImmediate(resolve))
      inside -= 1
      grants += 1
      await lease.release().catch((error: unknown) => expect(error).toMatchObject({ code: 'LOCK_LOST' }))
    }
  })
  const done = Promise.all(tasks)
  return {
    grants: () => grants,
    async stop() {
      going = false
      await done
    },
  }
}

async function majority(servers: readonly Server[]): Promise<void> {
  await until('a leader', 60_000, async () => {
    const modes = await Promise.all(servers.map((server) => zookeeperMode(server).catch(() => 'none')))
    return modes.includes('leader')
  })
}

async function followerOf(servers: readonly Server[]): Promise<Server> {
  for (const server of servers) if ((await zookeeperMode(server)) === 'follower') return server
  throw new Error('no follower')
}

test('diagnose counts the servers of an ensemble', async () => {
  const found = await bed.open({ sessionTimeoutMs: 30_000 }).diagnose()
  expect(found.filter(({ level }) => level !== 'ok')).toEqual([])
  expect(found.find(({ check }) => check === 'ensemble')?.message).toBe('3 servers vote; 1 of them may fail')
})

test('a session and its lock survive the death of the leader', { timeout }, async () => {
  const { servers } = bed.service
  const locks = bed.open({ sessionTimeoutMs: 60_000 }, { storeTimeoutMs: ms(30_000) })
  const name = lockName('kept')
  const lease = await locks.lock(name).acquire()
  const load = contend(lockName(), 4)
  await until('a run', 30_000, () => load.grants() > 50)
  const leader = await leaderOf(servers)
  await leader.kill()
  await majority(servers.filter((server) => server !== leader))
  const { holder } = await until('an answer', 30_000, () => locks.inspect(name).catch(() => undefined))
  expect(holder?.fence).toBe(lease.fence)
  lease.assertHeld()
  const other = bed.open({}, { storeTimeoutMs: ms(30_000) })
  expect(await other.lock(name).tryAcquire()).toBeNull()
  const before = load.grants()
  await until('the run goes on', 60_000, () => load.grants() > before + 50)
  await load.stop()
  await lease.release()
  await leader.start()
  await allServe(servers)
})

test(
  'while two of three servers are down, leases are in jeopardy and then lost; afterwards locks can be acquired',
  { timeout },
  async () => {
    const { servers } = bed.service
    const sessionTimeoutMs = ms(3_000)
    const locks = bed.open({ sessionTimeoutMs }, { storeTimeoutMs: ms(3_000) })
    const name = lockName()
    const states: string[] = []
    locks.on('jeopardy', () => states.push('jeopardy'))
    locks.on('lost', () => states.push('lost'))
    const lease = await locks.lock(name).acquire()
    const lost = lossOf(lease)
    const [first, second] = servers
    if (first === undefined || second === undefined)
      throw new Error('the ensemble has fewer than three servers')
    lease.assertHeld()
    const downAt = performance.now()
    await Promise.all([first.kill(), second.kill()])
    await assertInTime('the loss', sessionTimeoutMs, (await lost) - downAt)
    await expectLoss(states, downAt, sessionTimeoutMs / 2)
    await expect(locks.lock(name).tryAcquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    await Promise.all([first.start(), second.start()])
    await allServe(servers)
    const next = await until('a grant', 60_000, () =>
      locks
        .lock(name)
        .acquire()
        .catch(() => undefined),
    )
    expect(next.fence).toBeGreaterThan(lease.fence)
    await next.release()
  },
)

test('a server that has lost its leader does not keep a lease alive', { timeout }, async () => {
  const { servers } = bed.service
  const connected = await followerOf(servers)
  const sessionTimeoutMs = ms(2_000)
  const locks = bed.open({ servers: `${connected.host}:${connected.port}`, sessionTimeoutMs })
  const lease = await locks.lock(lockName()).acquire()
  const others = servers.filter((server) => server !== connected)
  const lost = lossOf(lease)
  lease.assertHeld()
  const frozenAt = performance.now()
  await Promise.all(others.map((server) => server.pause()))
  try {
    await assertInTime('the loss', sessionTimeoutMs, (await lost) - frozenAt)
  } finally {
    await Promise.all(others.map((server) => server.resume()))
    await allServe(servers)
  }
})

test(
  'a server that is cut off from its leader does not confirm a repeated attempt',
  { timeout },
  async () => {
    const { servers } = bed.service
    const connected = await followerOf(servers)
    const { adapter, request, take } = bed.adapter({
      servers: `${connected.host}:${connected.port}`,
      sessionTimeoutMs: ms(6_000),
    })
    const wanted = request(lockName())
    await take(wanted)
    const others = servers.filter((server) => server !== connected)
    await Promise.all(others.map((server) => server.pause()))
    try {
      // Until it notices, the server still answers reads.
      await expect(adapter.attempt(wanted)).rejects.toThrow()
    } finally {
      await Promise.all(others.map((server) => server.resume()))
      await allServe(servers)
    }
  },
)
