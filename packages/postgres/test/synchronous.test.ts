import { migrate } from '@locks/postgres'
import { Pool } from 'pg'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { postgresQuery, startService } from '../../../conformance/services/index.ts'
import { eventually } from '../../../conformance/services/timing.ts'
import { bare } from './support/setup.ts'
import type { Config } from './support/setup.ts'

const settings = { synchronous_standby_names: '*', synchronous_commit: 'remote_apply' }
const service = await startService('postgres-standby', { settings, needsControl: true })
afterAll(() => service.close())
const [{ url }, standby] = [service.server('primary'), service.server('standby')]
const control = (text: string): Promise<string | null | undefined> =>
  postgresQuery(service.server('primary'), text)
await migrate({ url })
const configs: Readonly<Record<string, () => Config>> = {
  pg: () => ({ url, library: 'pg', poolSize: 1 }),
  postgres: () => ({ url, library: 'postgres', poolSize: 1 }),
  'a pool': () => {
    const pool = new Pool({ connectionString: url, max: 1 })
    onTestFinished(() => pool.end())
    return { pool }
  },
}

test.each(Object.keys(configs))(
  '%s: a lock is not granted while a failover might undo it, also if the wait is cancelled',
  async (library) => {
    const { adapter, request, take } = bare(configs[library]?.() ?? {})
    await adapter.release(await take(request('before')))
    const wanted = request('replicated')
    await postgresQuery(standby, 'SELECT pg_wal_replay_pause()')
    try {
      const asked = adapter.attempt(wanted)
      asked.catch(() => undefined)
      await eventually('its commit waits, and is cancelled', async () => {
        const cancelled =
          "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        return (await control(cancelled)) === '1'
      })
      await expect(asked).rejects.toMatchObject({
        code: 'LOCK_UNAVAILABLE',
        message: expect.stringContaining('the wait for the synchronous standby was cancelled') as unknown,
      })
    } finally {
      await postgresQuery(standby, 'SELECT pg_wal_replay_resume()')
    }
    expect(await adapter.release(await take(wanted))).toBe('released')
  },
)
