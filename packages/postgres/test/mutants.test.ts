import { inTime } from '@locks/core/conformance'
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import type { Edit } from '../../../conformance/mutants/mutant.ts'
import { bareAdapter } from '../../../conformance/test-support/bare-adapter.ts'
import type { LaggingProxy } from '../../sql/test/support/lagging-proxy.ts'
import { breedSqlAdapter } from '../../sql/test/support/mutant.ts'
import { freed, inserted, pruned, renewed, shifted } from '../../sql/test/support/mutant-probes.ts'
import type { Bed } from '../../sql/test/support/mutant-probes.ts'
import { ended, expired, patient, spared, twice, unanswered, unlocked } from './support/advisory-probes.ts'
import { lagging, NO_ROW } from './support/lagging-proxy.ts'
import { connect, never, startServer } from './support/setup.ts'

const server = await startServer()

interface SchemaBed extends Bed {
  readonly config: { readonly url: string; readonly schema: string }
}

/** Without names of statements, so that each reply is one for all of a statement. */
async function unnamed(): Promise<LaggingProxy> {
  const proxy = await lagging(server)
  return { ...proxy, url: `${proxy.url}?listen=false` }
}

type SchemaProbe = (bed: SchemaBed) => Promise<void>

const edit = (file: string, find: string, replace: string): Edit => ({ file, find, replace })

const forged: SchemaProbe = async ({ adapter: { fromConfig }, config }) => {
  const control = await connect(server)
  const [holder, waiter] = [bareAdapter(fromConfig(config)), bareAdapter(fromConfig(config))]
  await holder.take(holder.request('forged'))
  const request = waiter.request('forged', { willWait: true })
  expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
  const { rows } = await control.query<{ listener: string }>(
    `SELECT listener FROM "${config.schema}".locks_waiters`,
  )
  const tag = createHash('sha256').update(request.attemptId).digest('hex').slice(0, 32)
  const payload = `granted ${tag} 2 3000 ${Date.now()} ${'0'.repeat(64)}`
  const wait = waiter.adapter.wait?.(request, 2_000, never)
  await control.query('SELECT pg_notify($1, $2)', [`locks_${rows[0]?.listener}`, payload])
  expect(await wait).toBeUndefined()
}

const kept: SchemaProbe = async ({ adapter: { fromConfig }, config }) => {
  const [holder, waiter] = [bareAdapter(fromConfig(config)), bareAdapter(fromConfig(config))]
  const wanted = holder.request('kept')
  const grant = await holder.take(wanted)
  const request = waiter.request('kept', { willWait: true })
  expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
  // Without a message it would look only when the ttl of the hold is over.
  const turn = waiter.adapter.wait?.(request, 20_000, never) ?? Promise.resolve(undefined)
  expect(await holder.adapter.release(grant, 300)).toBe('released')
  await holder.adapter.withdraw(wanted)
  await inTime('the waiter looks when the name is free', { ms: 5_000, waitsMs: 300 }, turn)
  expect(await holder.adapter.release(grant, 300)).toBe('not-held')
}

/** A table that the program had before it used locks. */
const foreign: SchemaProbe = async ({ adapter, config: { url, schema } }) => {
  const control = await connect(server)
  await control.query(`CREATE TABLE "${schema}".doors (id int, title text)`)
  const theirs = { url, schema, table: 'doors' }
  const refusal = /doors"? exists, and @locks\/postgres did not create it/
  await expect(adapter.migrate(theirs)).rejects.toThrow(refusal)
  const { adapter: bare, request } = bareAdapter(adapter.fromConfig(theirs))
  await expect(bare.attempt(request('a'))).rejects.toThrow(refusal)
}

const mutants: readonly (readonly [bug: string, probe: SchemaProbe, edits: readonly Edit[]])[] = [
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
  [
    'the check for tables of other programs is left out',
    foreign,
    [edit('postgres/foreign.js', 'SELECT min(found.it) FROM (', 'SELECT NULL::text FROM (')],
  ],
  ['replies are not checked', shifted, [edit('postgres/runner.js', 'first === nonce', 'true')]],
  [
    'a reply without a row is an answer',
    inserted(NO_ROW, 'inspect'),
    [edit('postgres/runner.js', 'rows.length >= least && ', '')],
  ],
  [
    'waiters are not told when a kept name is free',
    kept,
    [edit('postgres/lease-table.js', 'kept.queued AND $5', 'false AND $5')],
  ],
  [
    'a renewal waits for locked rows',
    renewed,
    [edit('postgres/schema-holds.js', ' FOR NO KEY UPDATE SKIP LOCKED', ' FOR NO KEY UPDATE')],
  ],
  [
    'the highest fence of pruned names is not kept',
    pruned('unique-key'),
    [edit('postgres/schema-parts.js', 'IF v_pruned > 0 THEN', 'IF v_pruned < 0 THEN')],
  ],
  [
    'what is held is pruned',
    pruned('unique-key'),
    [edit('postgres/schema-upkeep.js', 'AND (attempt IS NULL OR', 'AND (true OR')],
  ],
  [
    'the highest fence of pruned rows is not kept',
    pruned('row'),
    [
      edit('postgres/schema-parts.js', 'IF v_pruned > 0 THEN', 'IF v_pruned < 0 THEN'),
      // Fences are not below the clock either, which would hide it.
      edit('postgres/sql.js', '(extract(epoch FROM clock_timestamp()) * 1000000)::bigint', '0'),
    ],
  ],
  [
    'a locked row is taken for a lost one',
    renewed,
    [edit('postgres/schema-holds.js', "ELSE 'locked' END", "ELSE 'lost' END")],
  ],
  [
    'a connection locks a name again that it holds',
    twice,
    [
      edit('postgres/carriers.js', '!one.stuck && !one.has(lock)', '!one.stuck'),
      edit('postgres/advisory-driver.js', 'carriers.has(lock) ?', 'false ?'),
    ],
  ],
  [
    'a hold outlives its connection',
    ended(server),
    [edit('postgres/carrier.js', 'share.lost()', 'void share')],
  ],
  [
    'the server does not have to confirm that it unlocked',
    unlocked(server),
    [edit('postgres/share.js', "unlocked === 't'", "unlocked !== ''")],
  ],
  [
    'a hold that is not renewed lives as long as its connection',
    expired,
    [edit('postgres/carriers.js', 'share.silentUntil <= now', 'false')],
  ],
  [
    'a waiter expires with its ttl',
    patient(server),
    [edit('postgres/share.js', 'this.#key = key;', 'this.#key = key; this.#carriers.expires(this);')],
  ],
  [
    'a name counts as free before the server has answered the unlock',
    unanswered(server),
    [edit('postgres/advisory-driver.js', '(await holders.isAlive(key))', 'false')],
  ],
  [
    'a connection that no try needs any more stays taken',
    spared(server),
    [edit('postgres/carriers.js', 'one.settle()', 'void one')],
  ],
]

test.each(mutants)('caught: %s', async (bug, probe, edits) => {
  const name = `m_${createHash('sha256').update(bug).digest('hex').slice(0, 8)}`
  const bedOf = async (its: readonly Edit[], schema: string): Promise<SchemaBed> => {
    const adapter = await breedSqlAdapter('postgres', 'pg', its)
    const config = { url: server.url, schema }
    await adapter.migrate(config)
    const lockRow = async (row: string): Promise<() => void> => {
      const stranger = await connect(server)
      await stranger.query('BEGIN')
      await stranger.query(`SELECT FROM "${schema}".locks WHERE name = $1 FOR UPDATE`, [Buffer.from(row)])
      return () => void stranger.query('ROLLBACK')
    }
    return { adapter, config, lagging: unnamed, lockRow }
  }
  await probe(await bedOf([], `${name}_healthy`))
  await expect(probe(await bedOf(edits, name))).rejects.toThrow()
})

test('a reply with holes, which a client library makes after a failed statement, is no answer', async () => {
  // The driver leaves them out, so the check of replies shows only without that.
  const holes = edit(
    'postgres/drivers/postgres-js.js',
    '.flatMap((row) => [row.map((cell) => cell?.toString() ?? null)])',
    '.map((row) => row.map((cell) => cell?.toString() ?? null))',
  )
  const control = await connect(server)
  const outcomes = []
  for (const [schema, edits] of [
    ['no_holes', []],
    ['holes', [holes]],
  ] as const) {
    const { fromConfig, migrate } = await breedSqlAdapter('postgres', 'postgres', edits)
    const config = { url: server.url, schema, library: 'postgres', poolSize: 1 }
    await migrate(config)
    const { adapter, request, take } = bareAdapter(fromConfig(config))
    for (const name of ['a', 'b']) await take(request(name))
    await control.query(`ALTER FUNCTION "${schema}".locks_inspect RENAME TO kept;
      CREATE FUNCTION "${schema}".locks_inspect(name bytea, OUT o_waiters int) LANGUAGE plpgsql
      AS $$ BEGIN o_waiters = 1 / CASE name WHEN 'b' THEN 0 ELSE 1 END; END $$`)
    await expect(adapter.list?.(10)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    await control.query(`DROP FUNCTION "${schema}".locks_inspect;
      ALTER FUNCTION "${schema}".kept RENAME TO locks_inspect`)
    outcomes.push(await adapter.inspect('a').catch((error: unknown) => error))
  }
  expect(outcomes).toMatchObject([{ held: true }, { code: 'LOCK_UNAVAILABLE' }])
})
