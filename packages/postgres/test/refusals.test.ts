import { fromConfig } from '@locks/postgres'
import { Pool } from 'pg'
import { describe, test } from 'vitest'
import { expectOneBound, expectRefusedAtOnce } from '../../../conformance/test-support/refusals.ts'
import { connect, startServer } from './support/setup.ts'

const server = await startServer()
const { url, host, port } = server

describe.each(['unique-key', 'row'])('%s', (strategy) => {
  const refused = (to: string, saying: RegExp): Promise<void> =>
    expectRefusedAtOnce(fromConfig({ url: to, strategy }), saying)

  test('an unknown user, a missing database and a missing right are refused at once', async () => {
    const control = await connect(server)
    await control.query(`DROP ROLE IF EXISTS nothing`)
    await control.query(`CREATE ROLE nothing LOGIN`)
    await refused(`postgres://nobody@${host}:${port}/postgres`, /refuses this user.*28000/)
    await refused(`postgres://postgres@${host}:${port}/nowhere`, /database is missing.*3D000/)
    await refused(`postgres://nothing@${host}:${port}/postgres`, /lacks a privilege.*42501.*; grant/)
  })

  test('a wrong password, and none where the server wants one, are refused at once', async () => {
    const control = await connect(server)
    await control.query(`DROP ROLE IF EXISTS alice`)
    await control.query(`CREATE ROLE alice LOGIN PASSWORD 'right'`)
    const { rows } = await control.query<{ hba_file: string }>('SHOW hba_file')
    const rules = "VALUES ('host all alice all scram-sha-256'), ('host all all all trust')"
    await control.query(`COPY (${rules}) TO '${rows[0]?.hba_file}'`)
    await control.query('SELECT pg_reload_conf()')
    for (const library of ['pg', 'postgres']) {
      const at = `${host}:${port}/postgres?library=${library}`
      await refused(`postgres://alice:wrong@${at}`, /refuses the password.*28P01/)
      await refused(
        `postgres://alice@${at}`,
        /wants a password and got none.*; give one|refuses the password/,
      )
    }
  })

  test('a pool that the program has ended is refused at once', async () => {
    const pool = new Pool({ connectionString: url })
    await pool.end()
    await expectRefusedAtOnce(fromConfig({ pool, strategy }), /pool was ended.*; give a pool that is open/)
  })

  test('a missing table is refused at once', async () => {
    await expectRefusedAtOnce(
      fromConfig({ url, strategy, table: 'nowhere', migrate: false }),
      /42P01.*; run: .*locks migrate '?postgres:\S+$/,
    )
  })

  test('calls to a killed server fail after storeTimeoutMs, and work again once it is back', async () => {
    await expectOneBound(fromConfig({ url, strategy }), [server])
  })
})
