// The PostgreSQL adapter compared with hand-written statements, in one run. Run by hand:
// node bench/postgres.mjs [postgres://user@host:port/database]; without a URL it starts a private server.
import { createLocks } from '@locks/core'
import { migrate, postgres } from '@locks/postgres'
import pg from 'pg'
import { median, ratios, report } from './lib/measure.mjs'
import { startPostgres } from './lib/postgres-server.mjs'

const given = process.argv.slice(2).find((word) => word.startsWith('postgres'))
const server = given === undefined ? await startPostgres() : undefined
const url = given ?? server?.url ?? ''

// Few cycles in many rounds, since the time of a flush varies.
const ROUNDS = 501
const CYCLES = 2

await migrate({ url, schema: 'locks_bench' })
await migrate({ url, schema: 'locks_bench', table: 'row_locks' })
const leases = createLocks(postgres({ url, schema: 'locks_bench' }))
const rows = createLocks(postgres({ url, schema: 'locks_bench', table: 'row_locks', strategy: 'row' }))
const client = new pg.Client({ connectionString: url })
await client.connect()
await client.query('DROP TABLE IF EXISTS locks_bench.raw')
await client.query(
  'CREATE TABLE locks_bench.raw (name text PRIMARY KEY, owner text, fence bigint, expires_at timestamptz)',
)
await client.query("INSERT INTO locks_bench.raw VALUES ('bench', NULL, 0, now())")

/** @param {import('@locks/core').Locks} locks */
const cycles = (locks) => async () => {
  const lock = locks.lock('bench')
  for (let n = 0; n < CYCLES; n += 1) await (await lock.acquire()).release()
}

const take = {
  name: 'take',
  text: `INSERT INTO locks_bench.raw AS r VALUES ($1, $2, 1, now() + interval '30 s') ON CONFLICT (name) DO UPDATE
    SET owner = $2, fence = r.fence + 1, expires_at = now() + interval '30 s'
    WHERE r.owner IS NULL OR r.expires_at < now() RETURNING fence`,
}
const give = { name: 'give', text: 'UPDATE locks_bench.raw SET owner = NULL WHERE name = $1 AND owner = $2' }
const lock = { name: 'lock', text: 'SELECT 1 FROM locks_bench.raw WHERE name = $1 FOR UPDATE' }

async function rawKeys() {
  for (let n = 0; n < CYCLES; n += 1) {
    await client.query({ ...take, values: ['bench', `me ${n}`] })
    await client.query({ ...give, values: ['bench', `me ${n}`] })
  }
}

async function rawRows() {
  for (let n = 0; n < CYCLES; n += 1) {
    await client.query('BEGIN')
    await client.query({ ...lock, values: ['bench'] })
    await client.query('COMMIT')
  }
}

const uniqueKey = await ratios(ROUNDS, CYCLES, cycles(leases), rawKeys)
const row = await ratios(ROUNDS, CYCLES, cycles(rows), rawRows)
await Promise.all([leases.close(), rows.close(), client.end()])
await server?.stop()

report('PostgreSQL, uncontended', [
  { what: 'unique-key cycles/s', ours: median(uniqueKey.ours), theirs: median(uniqueKey.theirs) },
  { what: 'unique-key, ratio to INSERT ON CONFLICT + UPDATE', ours: uniqueKey.ratio, atLeast: 0.7 },
  { what: 'row cycles/s', ours: median(row.ours), theirs: median(row.theirs) },
  { what: 'row, ratio to BEGIN + FOR UPDATE + COMMIT', ours: row.ratio, atLeast: 0.6 },
])
