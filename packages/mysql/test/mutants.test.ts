import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { expect, onTestFinished, test } from 'vitest'
import type { Edit } from '../../../conformance/mutants/mutant.ts'
import { breedSqlAdapter } from '../../../conformance/test-kit/adapter-mutant.ts'
import type { SqlAdapter } from '../../../conformance/test-kit/adapter-mutant.ts'
import { bareAdapter } from '../../../conformance/test-kit/bare-adapter.ts'
import { hammerPrune } from '../../../conformance/test-kit/prune-hammer.ts'
import { lagging, NOTHING_CHANGED } from './lagging-proxy.ts'
import { connect, startServer } from './setup.ts'

const server = await startServer()

/** A check of an adapter, on names of its own. Fails when it has the bug. */
type Probe = (adapter: SqlAdapter, prefix: string) => Promise<void>

const edit = (file: string, find: string, replace: string): Edit => ({ file, find, replace })

const freed: Probe = async ({ fromConfig }, prefix) => {
  const client = bareAdapter(fromConfig({ url: server.url }))
  const grant = await client.take(client.request(`${prefix} freed`))
  expect(await client.adapter.release(grant)).toBe('released')
  expect(await client.adapter.release(grant)).toBe('not-held')
}

const shifted: Probe = async ({ fromConfig }, prefix) => {
  const { url, lag } = await lagging(server)
  const holder = bareAdapter(fromConfig({ url: server.url }))
  const client = bareAdapter(fromConfig({ url, poolSize: 1 }))
  await holder.take(holder.request(`${prefix} shifted`))
  await client.take(client.request(`${prefix} free`))
  lag()
  const tried = client.adapter.attempt(client.request(`${prefix} shifted`))
  await expect(tried).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
}

const inserted: Probe = async ({ fromConfig }, prefix) => {
  const { url, insert } = await lagging(server)
  const { adapter, take, request } = bareAdapter(fromConfig({ url, poolSize: 1 }))
  await adapter.release(await take(request(`${prefix} before`)))
  const grant = await take(request(`${prefix} inserted`))
  insert(NOTHING_CHANGED)
  await expect(adapter.release(grant)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
}

const renewed: Probe = async ({ fromConfig }, prefix) => {
  const stranger = await connect(server)
  const { adapter, take, request } = bareAdapter(fromConfig({ url: server.url }))
  const renewals = []
  for (const name of ['stuck', 'other'])
    renewals.push({ grant: await take(request(`${prefix} ${name}`)), ttlMs: 2_000, lockDelayMs: 0 })
  await stranger.beginTransaction()
  await stranger.query('SELECT * FROM locks WHERE name = ? FOR UPDATE', [`${prefix} stuck`])
  const timer = setTimeout(() => void stranger.rollback(), 2_000)
  const outcomes = await adapter.renew(renewals)
  clearTimeout(timer)
  expect(outcomes).toEqual(['unknown', 'renewed'])
}

/** One name, dropped and acquired by turns. */
const pruned: Probe = async ({ fromConfig }, prefix) => {
  const open = (): Locks => {
    const locks = createLocks(fromConfig({ url: server.url }))
    onTestFinished(() => locks.close())
    return locks
  }
  const held = await open().lock(`${prefix} held`).acquire()
  await hammerPrune(open, `${prefix} pruned`, { tries: 20, atLeast: 5 })
  await held.extend()
  expect(await open().lock(`${prefix} held`).tryAcquire()).toBe(null)
}

const mutants: readonly (readonly [bug: string, probe: Probe, edits: readonly Edit[]])[] = [
  [
    'a release of a free name says released',
    freed,
    [edit('mysql/unique-key.js', "? 'released' : 'not-held'", "? 'released' : 'released'")],
  ],
  [
    'replies are not checked',
    shifted,
    [edit('mysql/echo.js', 'insertId >> FENCE_BITS === BigInt(echo) >> FENCE_BITS', 'true')],
  ],
  [
    'a reply without a row is not proven',
    inserted,
    [edit('mysql/runner.js', "said === 'unproven' ? await inStep() : said", 'said')],
  ],
  [
    'a renewal waits for locked rows',
    renewed,
    [edit('mysql/sql.js', '${all} FOR UPDATE SKIP LOCKED`', '${all} FOR UPDATE`')],
  ],
  [
    'the highest fence of pruned names is not kept',
    pruned,
    [
      edit('mysql/prune.js', 'await runner.run(raise, [String(highest), String(highest)]);', ''),
      edit('mysql/prune.js', 'WHERE ${idle} AND ${table}.fence <= ${kept}`', 'WHERE ${idle}`'),
    ],
  ],
  ['what is held is pruned', pruned, [edit('mysql/prune.js', '(${table}.attempt IS NULL OR', '(true OR')]],
  [
    'a row that cannot be had in time is taken for a lost one',
    renewed,
    [edit('mysql/renewals.js', "?.get(renewal) ?? 'unknown'", "?.get(renewal) ?? 'lost'")],
  ],
]

test.each(mutants)('caught: %s', async (bug, probe, edits) => {
  await probe(await breedSqlAdapter('mysql', 'mysql2', []), `healthy: ${bug}`)
  await expect(probe(await breedSqlAdapter('mysql', 'mysql2', edits), bug)).rejects.toThrow()
})
