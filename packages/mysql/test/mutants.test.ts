import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import type { Edit } from '../../../conformance/mutants/mutant.ts'
import { bareAdapter } from '../../../conformance/test-support/bare-adapter.ts'
import { breedSqlAdapter } from '../../sql/test/support/mutant.ts'
import { freed, inserted, pruned, renewed, shifted } from '../../sql/test/support/mutant-probes.ts'
import type { Bed, Probe } from '../../sql/test/support/mutant-probes.ts'
import { lagging, NOTHING_CHANGED } from './support/lagging-proxy.ts'
import { connect, startServer } from './support/setup.ts'

const server = await startServer()

const edit = (file: string, find: string, replace: string): Edit => ({ file, find, replace })

/** A server that became a replica kept its connections. */
const demoted =
  (strategy: 'row' | 'named', act: 'renew' | 'release' | 'attempt'): Probe =>
  async ({ adapter: { fromConfig }, config }) => {
    const control = await connect(server)
    const { adapter, take, request } = bareAdapter(fromConfig({ ...config, strategy }))
    const grant = await take(request('demoted'))
    await control.query('SET GLOBAL read_only = ON')
    try {
      if (act === 'renew')
        expect(await adapter.renew([{ grant, ttlMs: 30_000, lockDelayMs: 0 }])).toEqual(['lost'])
      else if (act === 'release') expect(await adapter.release(grant)).toBe('not-held')
      else await expect(adapter.attempt(request('new'))).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    } finally {
      await control.query('SET GLOBAL read_only = OFF')
    }
  }

/** The same for leases, which stay in the table. */
const leased =
  (act: 'renew' | 'attempt'): Probe =>
  async ({ adapter: { fromConfig }, config }) => {
    const control = await connect(server)
    const { adapter, take, request } = bareAdapter(fromConfig(config))
    const grant = await take(request('leased'))
    await control.query('SET GLOBAL read_only = ON')
    try {
      const asked =
        act === 'attempt'
          ? adapter.attempt(request('new'))
          : adapter.renew([{ grant, ttlMs: 30_000, lockDelayMs: 0 }])
      await expect(asked).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    } finally {
      await control.query('SET GLOBAL read_only = OFF')
    }
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
    inserted(NOTHING_CHANGED, 'release'),
    [edit('mysql/runner.js', "said === 'unproven' ? await inStep() : said", 'said')],
  ],
  [
    'a renewal waits for locked rows',
    renewed,
    [edit('mysql/renewals.js', '${all} FOR UPDATE SKIP LOCKED`', '${all} FOR UPDATE`')],
  ],
  [
    'the highest fence of pruned names is not kept',
    pruned('unique-key'),
    [
      edit('mysql/prune.js', 'await runner.run(raise, [String(highest), String(highest)]);', ''),
      edit('mysql/prune.js', 'WHERE ${idle} AND ${table}.fence <= ${kept}`', 'WHERE ${idle}`'),
    ],
  ],
  [
    'what is held is pruned',
    pruned('unique-key'),
    [edit('mysql/prune.js', '(${table}.attempt IS NULL OR', '(true OR')],
  ],
  [
    'a row that cannot be locked in time is taken for a lost one',
    renewed,
    [edit('mysql/renewals.js', "?.get(renewal) ?? 'unknown'", "?.get(renewal) ?? 'lost'")],
  ],
  [
    'a replica renews',
    demoted('row', 'renew'),
    [
      edit(
        'mysql/session-driver.js',
        'const [readOnly] = await connection.ask(showLife)',
        'const readOnly = (await connection.ask(showLife), "0")',
      ),
    ],
  ],
  [
    'a release on a replica says released',
    demoted('named', 'release'),
    [edit('mysql/session-driver.js', '=== sql.locks && isOff(readOnly)', '=== sql.locks')],
  ],
  [
    'a replica grants',
    demoted('row', 'attempt'),
    [edit('mysql/session-driver.js', "if (got === '1')", 'if (false)')],
  ],
  [
    'a replica grants leases',
    leased('attempt'),
    [edit('mysql/unique-key.js', "SELECT ${onPrimary('p.fence', 'p.id')}", 'SELECT p.fence')],
  ],
  [
    'a replica renews leases',
    leased('renew'),
    [edit('mysql/renewals.js', "echoing(onPrimary('0', 'l.name'))", "echoing('0')")],
  ],
]

test.each(mutants)('caught: %s', async (bug, probe, edits) => {
  const name = `m_${createHash('sha256').update(bug).digest('hex').slice(0, 8)}`
  const bedOf = async (its: readonly Edit[], table: string): Promise<Bed> => {
    const adapter = await breedSqlAdapter('mysql', 'mysql2', its)
    const config = { url: server.url, table }
    await adapter.migrate(config)
    const lockRow = async (row: string): Promise<() => void> => {
      const stranger = await connect(server)
      await stranger.beginTransaction()
      await stranger.query(`SELECT * FROM ${table} WHERE name = ? FOR UPDATE`, [row])
      return () => void stranger.rollback()
    }
    return { adapter, config, lagging: () => lagging(server), lockRow }
  }
  await probe(await bedOf([], `${name}_healthy`))
  await expect(probe(await bedOf(edits, name))).rejects.toThrow()
})
