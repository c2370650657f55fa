import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { inTime } from '@locks/core/conformance'
import { createHash } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import type { Edit } from '../../../conformance/mutants/mutant.ts'
import { breedSqlAdapter } from '../../../conformance/test-kit/adapter-mutant.ts'
import type { SqlAdapter } from '../../../conformance/test-kit/adapter-mutant.ts'
import { bareAdapter } from '../../../conformance/test-kit/bare-adapter.ts'
import { hammerPrune } from '../../../conformance/test-kit/prune-hammer.ts'
import { lagging, NO_ROW } from './lagging-proxy.ts'
import { connect, never, startServer } from './setup.ts'

const server = await startServer()

/** A check of an adapter whose tables are in `schema`. Fails when it has the bug. */
type Probe = (adapter: SqlAdapter, schema: string) => Promise<void>

const edit = (file: string, find: string, replace: string): Edit => ({ file, find, replace })

const forged: Probe = async ({ fromConfig }, schema) => {
  const control = await connect(server)
  const config = { url: server.url, schema }
  const [holder, waiter] = [bareAdapter(fromConfig(config)), bareAdapter(fromConfig(config))]
  await holder.take(holder.request('forged'))
  const request = waiter.request('forged', { willWait: true })
  expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
  const { rows } = await control.query<{ listener: string }>(`SELECT listener FROM "${schema}".locks_waiters`)
  const tag = createHash('sha256').update(request.attemptId).digest('hex').slice(0, 32)
  const payload = `granted ${tag} 2 3000 ${Date.now()} ${'0'.repeat(64)}`
  const wait = waiter.adapter.wait?.(request, 2_000, never)
  await control.query('SELECT pg_notify($1, $2)', [`locks_${rows[0]?.listener}`, payload])
  expect(await wait).toBeUndefined()
}

const freed: Probe = async ({ fromConfig }, schema) => {
  const client = bareAdapter(fromConfig({ url: server.url, schema }))
  const grant = await client.take(client.request('freed'))
  expect(await client.adapter.release(grant)).toBe('released')
  expect(await client.adapter.release(grant)).toBe('not-held')
}

const shifted: Probe = async ({ fromConfig }, schema) => {
  const { url, lag } = await lagging(server)
  const holder = bareAdapter(fromConfig({ url: server.url, schema }))
  const client = bareAdapter(fromConfig({ url, schema, poolSize: 1, listen: false }))
  await holder.take(holder.request('shifted'))
  await client.take(client.request('free'))
  lag()
  await expect(client.adapter.attempt(client.request('shifted'))).rejects.toMatchObject({
    code: 'LOCK_UNAVAILABLE',
  })
}

const inserted: Probe = async ({ fromConfig }, schema) => {
  const { url, insert } = await lagging(server)
  const config = { url, schema, poolSize: 1, listen: false }
  const { adapter, take, request } = bareAdapter(fromConfig(config))
  const { name } = await take(request('inserted'))
  insert(NO_ROW)
  await expect(adapter.inspect(name)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
}

const renewed: Probe = async ({ fromConfig }, schema) => {
  const stranger = await connect(server)
  const { adapter, take, request } = bareAdapter(fromConfig({ url: server.url, schema }))
  const renewals = []
  for (const name of ['stuck', 'other'])
    renewals.push({ grant: await take(request(name)), ttlMs: 2_000, lockDelayMs: 0 })
  await stranger.query('BEGIN')
  await stranger.query(`SELECT FROM "${schema}".locks WHERE name = 'stuck' FOR UPDATE`)
  const timer = setTimeout(() => void stranger.query('ROLLBACK'), 2_000)
  const outcomes = await adapter.renew(renewals)
  clearTimeout(timer)
  expect(outcomes).toEqual(['unknown', 'renewed'])
}

const kept: Probe = async ({ fromConfig }, schema) => {
  const config = { url: server.url, schema }
  const [holder, waiter] = [bareAdapter(fromConfig(config)), bareAdapter(fromConfig(config))]
  const wanted = holder.request('kept')
  const grant = await holder.take(wanted)
  const request = waiter.request('kept', { willWait: true })
  expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
  // By itself it would look when the ttl of the hold is over.
  const turn = waiter.adapter.wait?.(request, 20_000, never) ?? Promise.resolve(undefined)
  expect(await holder.adapter.release(grant, 300)).toBe('released')
  await holder.adapter.withdraw(wanted)
  await inTime('the waiter looks when the name is free', { ms: 5_000, waitsMs: 300 }, turn)
  expect(await holder.adapter.release(grant, 300)).toBe('not-held')
}
/** One name, dropped and acquired by turns. */
const pruned =
  (strategy: string): Probe =>
  async ({ fromConfig }, schema) => {
    const open = (): Locks => {
      const locks = createLocks(fromConfig({ url: server.url, schema, strategy }))
      onTestFinished(() => locks.close())
      return locks
    }
    const held = await open().lock('held').acquire()
    await hammerPrune(open, 'pruned', { tries: 20, atLeast: 5 })
    await held.extend()
    expect(await open().lock('held').tryAcquire()).toBe(null)
  }

const mutants: readonly (readonly [bug: string, probe: Probe, edits: readonly Edit[]])[] = [
  [
    'the proof of a grant is not checked',
    forged,
    [
      edit(
        'postgres/messages.js',
        'timingSafeEqual(Buffer.from(proof), Buffer.from(proofOf(fields, secret)))',
        'true',
      ),
    ],
  ],
  [
    'a release of a free name says released',
    freed,
    [
      edit(
        'postgres/schema.js',
        "THEN 'released' ELSE 'not-held' END",
        "THEN 'released' ELSE 'released' END",
      ),
    ],
  ],
  ['replies are not checked', shifted, [edit('postgres/runner.js', 'first === nonce', 'true')]],
  ['a reply without a row is an answer', inserted, [edit('postgres/runner.js', 'rows.length > 0 && ', '')]],
  [
    'waiters are not told when a kept name is free',
    kept,
    [edit('postgres/sql.js', 'kept.queued AND $5', 'false AND $5')],
  ],
  [
    'a renewal waits for locked rows',
    renewed,
    [edit('postgres/schema-holds.js', ' FOR NO KEY UPDATE SKIP LOCKED', ' FOR NO KEY UPDATE')],
  ],
  [
    'the highest fence of pruned names is not kept',
    pruned('unique-key'),
    [edit('postgres/schema-upkeep.js', 'IF v_pruned > 0 THEN', 'IF v_pruned < 0 THEN')],
  ],
  [
    'what is held is pruned',
    pruned('unique-key'),
    [edit('postgres/schema-upkeep.js', 'AND (attempt IS NULL OR', 'AND (true OR')],
  ],
  [
    'the highest fence of pruned rows is not kept',
    pruned('row'),
    [edit('postgres/row-schema.js', 'IF v_pruned > 0 THEN', 'IF v_pruned < 0 THEN')],
  ],
  [
    'a locked row is taken for a lost one',
    renewed,
    [edit('postgres/schema-holds.js', "ELSE 'locked' END", "ELSE 'lost' END")],
  ],
]

test.each(mutants)('caught: %s', async (bug, probe, edits) => {
  const [healthy, mutant] = [
    await breedSqlAdapter('postgres', 'pg', []),
    await breedSqlAdapter('postgres', 'pg', edits),
  ]
  const schema = `m_${createHash('sha256').update(bug).digest('hex').slice(0, 8)}`
  await healthy.migrate({ url: server.url, schema: `${schema}_healthy` })
  await probe(healthy, `${schema}_healthy`)
  await mutant.migrate({ url: server.url, schema })
  await expect(probe(mutant, schema)).rejects.toThrow()
})
