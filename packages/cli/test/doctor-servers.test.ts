import { fileURLToPath } from 'node:url'
import { migrate } from '@locks/postgres'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isAdapterSelected } from '../../../conformance/selection.ts'
import { startService } from '../../../conformance/services/index.ts'
import type { Settings } from '../../../conformance/services/index.ts'
import { startPgbouncer, whyNoPgbouncer } from '../../postgres/test/support/pgbouncer.ts'
import { inTime, locks } from './support/cli.ts'

/** An adapter is looked up from where the command runs. */
const zookeeper = fileURLToPath(new URL('../../zookeeper', import.meta.url))

async function startRedis(settings: Settings): Promise<string> {
  const service = await startService('redis', { settings })
  onTestFinished(() => service.close())
  return service.url
}

if (isAdapterSelected('redis'))
  describe('locks doctor, on a Redis', inTime, () => {
    test('finds that it may evict locks, and what to do', async () => {
      const settings = { 'maxmemory-policy': 'allkeys-lru', appendonly: 'yes', appendfsync: 'always' }
      const { code, stdout } = await locks(['doctor', await startRedis(settings)]).ended
      expect(code).toBe(1)
      expect(stdout).toMatch(/^✗ eviction-policy: .*allkeys-lru\n    → .*noeviction$/m)
      expect(stdout).toMatch(/^1 danger, /m)
    })

    test('finds that nothing survives its restart, and what to do', async () => {
      const url = await startRedis({ appendonly: 'no', save: '' })
      const { code, stdout } = await locks(['doctor', url]).ended
      expect(code).toBe(1)
      expect(stdout).toMatch(/^✗ persistence: .*\n    → .*appendonly yes/m)
      const json = await locks(['doctor', '--json', url]).ended
      expect(json.code).toBe(1)
      const told: unknown = JSON.parse(json.stdout)
      expect(told).toMatchObject({ ok: false, capabilities: { scope: 'cluster' } })
      expect(json.stdout).toMatch(/"check": "persistence",\s+"level": "danger"/)
    })

    test('finds no danger if both settings are right', async () => {
      const settings = { 'maxmemory-policy': 'noeviction', appendonly: 'yes', appendfsync: 'always' }
      const { code, stdout } = await locks(['doctor', await startRedis(settings)]).ended
      expect(stdout).not.toContain('✗')
      expect(code).toBe(0)
    })
  })

if (isAdapterSelected('postgres')) {
  const missing = await whyNoPgbouncer()
  describe('locks doctor, on a PostgreSQL', inTime, () => {
    test('finds a PgBouncer in transaction mode, and what to do', async ({ skip }) => {
      if (missing !== undefined) skip(missing)
      await using service = await startService('postgres', { needsControl: true })
      const server = service.server('postgres')
      await migrate({ url: server.url })
      await using pooler = await startPooler(server)
      const row = await locks(['doctor', `${pooler.url}?strategy=row`]).ended
      expect(row.stdout).toMatch(/^[!✗] pooling: .*transaction mode.*\n    → .*unique-key/m)
      expect(row.code).toBe(1)
      const usual = await locks(['doctor', pooler.url]).ended
      expect(usual.stdout).toMatch(/^[!✗] pooling: .*transaction mode.*\n    → .*listen/m)
      const direct = await locks(['doctor', server.url]).ended
      expect(direct.stdout).toMatch(/^✓ pooling: /m)
    })
  })
}

if (isAdapterSelected('zookeeper'))
  describe('locks doctor and bench, on a ZooKeeper', inTime, () => {
    test('use names that are paths, as rawPath requires', async () => {
      await using service = await startService('zookeeper')
      const url = `${service.url}?rawPath=true`
      const { stdout } = await locks(['doctor', url], { cwd: zookeeper }).ended
      expect(stdout).toMatch(/^[✓!] timing: /m)
      expect(stdout).not.toContain('✗ usable')
      const bench = await locks(['bench', url, '--time', '200ms', '--clients', '2'], { cwd: zookeeper }).ended
      expect(bench).toMatchObject({ code: 0 })
    })
  })

async function startPooler(
  server: Parameters<typeof startPgbouncer>[0],
): Promise<{ url: string } & AsyncDisposable> {
  const { url, close } = await startPgbouncer(server, 'transaction')
  return { url, [Symbol.asyncDispose]: close }
}
