import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import type { Edit } from '../../../conformance/mutants/mutant.ts'
import { breedSqlAdapter } from '../../sql/test/support/mutant.ts'
import { freed, inserted, pruned, renewed, shifted } from '../../sql/test/support/mutant-probes.ts'
import type { Bed, Probe } from '../../sql/test/support/mutant-probes.ts'
import { lagging, NOTHING_CHANGED } from './support/lagging-proxy.ts'
import { connect, startServer } from './support/setup.ts'

const server = await startServer()

const edit = (file: string, find: string, replace: string): Edit => ({ file, find, replace })

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
