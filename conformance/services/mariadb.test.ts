import { expect, test } from 'vitest'
import { mariadbQuery, startService } from './index.ts'
import { controlTests } from './test-support/control-tests.ts'
import { describeFamily } from './test-support/describe-family.ts'

describeFamily('mysql', 'mariadb', () => {
  controlTests({
    kind: 'mariadb',
    ask: (server) => mariadbQuery(server, 'SELECT 1'),
    write: (server) => mariadbQuery(server, 'CREATE TABLE IF NOT EXISTS written (id int)'),
    isWritten: async (server) => (await mariadbQuery(server, "SHOW TABLES LIKE 'written'")) === 'written',
  })

  test('takes settings by their own names', async () => {
    await using service = await startService('mariadb', {
      settings: { 'max-connections': 11, 'sql-mode': '' },
    })
    const server = service.server('mariadb')
    expect(await mariadbQuery(server, 'SELECT @@max_connections')).toBe('11')
    expect(await mariadbQuery(server, 'SELECT @@global.sql_mode')).toBe('')
  })

  // A start empties that directory of temporary tables, also of other servers.
  test('keeps temporary tables in a directory of its own', async () => {
    await using service = await startService('mariadb', { needsControl: true })
    const server = service.server('mariadb')
    const directory = await mariadbQuery(server, 'SELECT @@tmpdir')
    expect(directory).toMatch(/\/locks-[^/]+\/tmp$/)
    if (server.directory !== undefined) expect(directory).toBe(`${server.directory}/tmp`)
  })
})
