import type { Lease } from '@locks/core'
import { expect, test } from 'vitest'
import { atLength } from '../../../conformance/selection.ts'
import { fourLetterWord } from '../../../conformance/services/index.ts'
import { directory, lockName, testBed } from './support/bed.ts'
import { ms, rawClient, until } from './support/raw-client.ts'

const bed = testBed('zookeeper', { maxSessionTimeout: 900_000 })

/** The server's counters by name. */
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
  'with 200 waiters a release costs one event and a few requests of one client',
  { timeout: ms(300_000) },
  async () => {
    const [count, batch] = [200, 10]
    const name = lockName()
    // So long that no client sends a sign of life while requests are counted.
    const options = { sessionTimeoutMs: 900_000 }
    const holder = bed.open(options)
    let lease: Lease = await holder.lock(name).acquire()
    const granted: Lease[] = []
    // A few at a time: hundreds of sessions at once keep a busy server from answering in time.
    for (let n = 0; n < count; n += batch) {
      const clients = Array.from({ length: batch }, () => bed.open(options))
      await Promise.all(clients.map((locks) => locks.inspect(name)))
      for (const locks of clients)
        void locks
          .lock(name)
          .acquire({ waitMs: ms(250_000) })
          .then((turn) => granted.push(turn))
    }
    const next = (): Promise<Lease> => until('the next holder', 20_000, () => granted.shift())
    // As long as theirs, for the same reason.
    await using raw = await rawClient(bed.servers, { sessionTimeout: options.sessionTimeoutMs })
    await until('all wait', 60_000, async () => (await raw.children(directory(name)))?.length === count + 1)
    await until('all watch', 60_000, async () => (await counters()).get('zk_watch_count') === count)
    const deletions = async (): Promise<number> =>
      (await counters()).get('zk_sum_node_deleted_watch_count') ?? 0
    const [before, eventsBefore] = [await received(), await deletions()]
    const rounds = 10
    for (let round = 0; round < rounds; round += 1) {
      await lease.release()
      lease = await next()
    }
    const asked = [...(await received())].map(([id, sent]) => sent - (before.get(id) ?? sent))
    const [clients, requests] = [asked.filter((sent) => sent > 0).length, asked.reduce((a, b) => a + b, 0)]
    const events = (await deletions()) - eventsBefore
    console.log(`${rounds} hand-offs among ${count} waiters`, JSON.stringify({ clients, requests, events }))
    expect(events).toBe(rounds)
    // Only the client that releases and the next one send requests: to remove the node, to read the queue, and a
    // second later to remove the directory, which is in use and stays.
    expect(clients).toBe(rounds + 1)
    expect(requests).toBeLessThanOrEqual(rounds * 4)
    await lease.release()
    for (let left = count - rounds; left > 0; left -= 1) await (await next()).release()
  },
)

const cycles = atLength(1_000, 10_000)

test(`${cycles} contended cycles leave no watches or nodes behind`, { timeout: ms(600_000) }, async () => {
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
})
