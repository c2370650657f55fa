import type { Lease } from '@locks/core'
import { expect, test } from 'vitest'
import { fourLetterWord } from '../../../conformance/services/index.ts'
import { directory, lockName, testBed } from './bed.ts'
import { ms, until } from './support.ts'

const bed = testBed('zookeeper', { maxSessionTimeout: 900_000 })

/** Counters of the server by their own names. */
async function counters(): Promise<ReadonlyMap<string, number>> {
  const lines = (await fourLetterWord(bed.server, 'mntr')).split('\n')
  return new Map(lines.map((line) => line.split('\t')).map(([key = '', value]) => [key, Number(value)]))
}

/** How many requests each session has sent so far. */
async function received(): Promise<ReadonlyMap<string, number>> {
  const report = await fourLetterWord(bed.server, 'cons')
  const found = [...report.matchAll(/recved=(\d+),.*?sid=(0x[0-9a-f]+)/g)]
  return new Map(found.map(([, count, session = '']) => [session, Number(count)]))
}

test(
  'no herd: with 200 waiters a release costs one event and a few requests of one client',
  { timeout: ms(120_000) },
  async () => {
    const count = 200
    const name = lockName()
    // So long that nobody has to show signs of life while it is counted.
    const options = { sessionTimeoutMs: 900_000 }
    const holder = bed.open(options)
    let lease: Lease = await holder.lock(name).acquire()
    const granted: Lease[] = []
    for (let n = 0; n < count; n += 1) {
      const waiting = bed
        .open(options)
        .lock(name)
        .acquire({ waitMs: ms(100_000) })
      void waiting.then((turn) => granted.push(turn))
    }
    const next = (): Promise<Lease> => until('the next holder', 20_000, () => granted.shift())
    const raw = await bed.raw()
    await until('all wait', 60_000, async () => (await raw.children(directory(name)))?.length === count + 1)
    await until('all watch', 60_000, async () => (await counters()).get('zk_watch_count') === count)
    const costs = []
    for (let round = 0; round < 10; round += 1) {
      const [before, events] = [
        await received(),
        (await counters()).get('zk_sum_node_deleted_watch_count') ?? 0,
      ]
      await lease.release()
      lease = await next()
      const after = await received()
      const asked = [...after].map(([id, sent]) => sent - (before.get(id) ?? sent)).filter((sent) => sent > 0)
      const fired = ((await counters()).get('zk_sum_node_deleted_watch_count') ?? 0) - events
      costs.push({ clients: asked.length, requests: asked.reduce((sum, one) => sum + one, 0), fired })
    }
    console.log('cost of a hand-off among 200 waiters', JSON.stringify(costs))
    for (const { clients, requests, fired } of costs) {
      // The one that releases and the one that takes over.
      expect(clients).toBe(2)
      expect(requests).toBeLessThanOrEqual(4)
      expect(fired).toBe(1)
    }
    await lease.release()
    for (let left = count - costs.length; left > 0; left -= 1) await (await next()).release()
  },
)

test(
  'trap 9: 10,000 contended cycles leave as many watches and nodes as there were',
  { timeout: ms(600_000) },
  async () => {
    const cycles = 10_000
    const [clients, names] = [4, 5]
    const all = Array.from({ length: clients }, () => bed.open({ sessionTimeoutMs: 30_000 }))
    await Promise.all(all.map((locks) => locks.with(lockName(), () => undefined)))
    const counted = async (): Promise<{ watches: number; nodes: number }> => {
      const now = await counters()
      return { watches: now.get('zk_watch_count') ?? NaN, nodes: now.get('zk_znode_count') ?? NaN }
    }
    await until(
      'idle directories are gone',
      10_000,
      async () => (await counters()).get('zk_ephemerals_count') === 0,
    )
    let before = await counted()
    await until('nothing changes any more', 10_000, async () => {
      const last = before
      await new Promise((resolve) => setTimeout(resolve, ms(1_200)))
      before = await counted()
      return last.nodes === before.nodes
    })
    let contended = 0
    for (const locks of all) locks.on('contended', () => (contended += 1))
    const shared = Array.from({ length: names }, () => lockName('shared'))
    await Promise.all(
      shared.flatMap((name) =>
        all.map(async (locks) => {
          for (let n = 0; n < cycles / names / clients; n += 1)
            await locks.with(name, { waitMs: ms(60_000) }, () => undefined)
        }),
      ),
    )
    expect(contended).toBeGreaterThan(cycles / 2)
    await until(`as before: ${JSON.stringify(before)}`, 15_000, async () => {
      const after = await counted()
      return after.watches === before.watches && after.nodes === before.nodes
    })
  },
)
