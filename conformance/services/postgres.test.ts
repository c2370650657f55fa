import { expect, test } from 'vitest'
import { postgresQuery, startService } from './index.ts'
import { controlTests } from './test-support/control-tests.ts'
import { describeFamily } from './test-support/describe-family.ts'
import { eventually } from './timing.ts'

describeFamily('postgres', 'postgres', () => {
  controlTests({
    kind: 'postgres',
    ask: (server) => postgresQuery(server, 'SELECT 1'),
    write: (server) => postgresQuery(server, 'CREATE TABLE IF NOT EXISTS written ()'),
    isWritten: async (server) => (await postgresQuery(server, "SELECT to_regclass('written')")) !== null,
  })

  test('takes settings, and is durable by default', async () => {
    await using service = await startService('postgres', {
      settings: { max_connections: 7, synchronous_commit: 'off' },
    })
    const server = service.server('postgres')
    expect(await postgresQuery(server, 'SHOW max_connections')).toBe('7')
    expect(await postgresQuery(server, 'SHOW synchronous_commit')).toBe('off')
    expect(await postgresQuery(server, 'SHOW fsync')).toBe('on')
  })

  test('one of its processes can be killed by the id that the server reports', async () => {
    await using service = await startService('postgres', { needsControl: true })
    const server = service.server('postgres')
    const find = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
    const pid = Number(await postgresQuery(server, find))
    await server.signal(pid, 'SIGKILL')
    await eventually('the server has recovered with a new one', async () => {
      const found = await postgresQuery(server, find)
      return found !== null && Number(found) !== pid
    })
  })
})
