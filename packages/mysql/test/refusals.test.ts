import { fromConfig } from '@locks/mysql'
import { describe, test } from 'vitest'
import { mariadbQuery } from '../../../conformance/services/index.ts'
import { expectOneBound, expectRefusedAtOnce } from '../../../conformance/test-support/refusals.ts'
import { startServer } from './support/setup.ts'

const server = await startServer()
const { url, host, port } = server

describe.each(['unique-key', 'row', 'named'])('%s', (strategy) => {
  const refused = (to: string, saying: RegExp): Promise<void> =>
    expectRefusedAtOnce(fromConfig({ url: to, strategy }), saying)

  test('a wrong password, an unknown user, a missing database and right are refused at once', async () => {
    await mariadbQuery(server, "CREATE USER IF NOT EXISTS alice@'%' IDENTIFIED BY 'right'")
    await mariadbQuery(server, "CREATE USER IF NOT EXISTS reader@'%' IDENTIFIED BY 'right'")
    await mariadbQuery(server, "GRANT SELECT ON locks.locks_strategy TO reader@'%'")
    const at = `${host}:${port}`
    await refused(
      `mysql://alice:wrong@${at}/locks`,
      /refuses the user or the password.*ER_ACCESS_DENIED_ERROR/,
    )
    await refused(`mysql://nobody:x@${at}/locks`, /refuses the user or the password/)
    await refused(`mysql://alice:right@${at}/locks`, /may not use this database: .*; grant/)
    await refused(`mysql://reader:right@${at}/locks`, /may not use the tables: .*; grant/)
    await refused(url.replace(/\/[^/]*$/, '/nowhere'), /database is missing/)
  })

  test('a missing table is refused at once', async () => {
    const factory = fromConfig({ url, strategy, table: 'nowhere', migrate: false })
    await expectRefusedAtOnce(factory, /locks migrate/)
  })

  test('calls to a killed server fail after storeTimeoutMs, and work again once it is back', async () => {
    await expectOneBound(fromConfig({ url, strategy }), [server])
  })
})
