import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  currentPrimary,
  cutReplication,
  healReplication,
  redisCommand,
  redisFields,
  startService,
  type Service,
} from './index.ts'
import { describeFamily } from './test-support/describe-family.ts'
import { expectNoTraces, tracesOf } from './test-support/reachability.ts'
import { eventually } from './timing.ts'

describeFamily('redis', 'redis with sentinels', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService('redis-sentinel', { needsControl: true })
  })
  afterAll(() => service?.close())

  test('replicates, and the sentinels know the primary', async () => {
    const { port } = service.server('primary')
    expect(service.url).toMatch(
      /^redis-sentinel:\/\/127\.0\.0\.1:\d+,127\.0\.0\.1:\d+,127\.0\.0\.1:\d+\/locks$/,
    )
    expect(await currentPrimary(service)).toEqual({ host: '127.0.0.1', port })
    await redisCommand(service.server('primary'), 'SET', 'before', 'cut')
    await eventually('the replica has it', async () => {
      return (await redisCommand(service.server('replica'), 'GET', 'before')) === 'cut'
    })
  })

  test('a failover promotes the replica, without what was written while replication was cut', async () => {
    const [primary, replica] = [service.server('primary'), service.server('replica')]
    await cutReplication(service)
    await redisCommand(primary, 'SET', 'after', 'cut')
    await primary.kill()
    await eventually(
      'the replica is primary',
      async () => (await currentPrimary(service)).port === replica.port,
    )
    await eventually('it takes writes', () => redisCommand(replica, 'SET', 'written', 'there'))
    expect(await redisCommand(replica, 'GET', 'before')).toBe('cut')
    expect(await redisCommand(replica, 'GET', 'after')).toBeNull()
  })

  test('the old primary returns as a replica', async () => {
    const primary = service.server('primary')
    await primary.start()
    await healReplication(service)
    await eventually(
      'it follows',
      async () => {
        const info = await redisFields(primary, 'INFO', 'replication')
        return info.get('role') === 'slave' && info.get('master_link_status') === 'up'
      },
      { withinMs: 30_000 },
    )
    expect(await redisCommand(primary, 'GET', 'written')).toBe('there')
  })
})

describeFamily('redis', 'redis cluster', () => {
  test('shares out the slots, and a restarted or wiped node takes its place again', async () => {
    const service = await startService('redis-cluster', { needsControl: true })
    const traces = tracesOf(service)
    const outcomes = await Promise.all(service.servers.map((server) => answerTo(server.port, 'SET')))
    expect(outcomes.filter((outcome) => outcome === 'OK')).toHaveLength(1)
    expect(outcomes.filter((outcome) => outcome.startsWith('MOVED 5061 127.0.0.1:'))).toHaveLength(2)
    const owner = service.servers[outcomes.indexOf('OK')]
    for (const wipe of [false, true]) {
      await owner?.restart({ hard: true, wipe })
      await eventually('the cluster is whole again', async () => {
        return (await Promise.all(service.servers.map((server) => answerTo(server.port, 'GET')))).includes(
          'null',
        )
      })
    }
    await service.close()
    await expectNoTraces(traces)
  })

  async function answerTo(port: number, command: 'SET' | 'GET'): Promise<string> {
    try {
      // "bar" lives in slot 5061.
      return String(
        await redisCommand({ host: '127.0.0.1', port }, command, 'bar', ...(command === 'SET' ? ['1'] : [])),
      )
    } catch (error) {
      return error instanceof Error ? error.message : 'unknown'
    }
  }
})
