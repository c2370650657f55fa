import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { prepareServices, redisCommand, selectedKinds, startService, type ServiceKind } from './index.ts'
import { obtain } from './obtain.ts'
import { freePorts, returnPorts } from './ports.ts'
import { launchService } from './start-service.ts'
import { describeFamily } from './test-support/describe-family.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

describeFamily('redis', 'a service given by the environment', () => {
  test('is used and reached, and refuses every control', async () => {
    await using ours = await startService('redis', { needsControl: true })
    vi.stubEnv('LOCKS_TEST_REDIS_URL', ours.url)
    const service = await startService('redis')
    expect(service).toMatchObject({ source: 'environment', url: ours.url, control: false })
    expect(await prepareServices(['redis'])).toEqual(new Map([['redis', 'environment']]))
    const [server] = service.servers
    expect(server).toMatchObject({ host: '127.0.0.1', port: ours.servers[0]?.port, pid: undefined })
    const refusal = 'given by LOCKS_TEST_REDIS_URL and is not ours to stop'
    for (const method of ['start', 'stop', 'kill', 'pause', 'resume', 'restart'] as const) {
      await expect(server?.[method]()).rejects.toThrow(refusal)
    }
    await service.close()
    expect(await redisCommand(ours.server('redis'), 'PING')).toBe('PONG')
  })

  test('is passed over by those who need control or settings', async () => {
    await using ours = await startService('redis', { needsControl: true })
    vi.stubEnv('LOCKS_TEST_REDIS_URL', ours.url)
    for (const options of [{ needsControl: true }, { settings: { maxmemory: '50mb' } }]) {
      await using service = await startService('redis', options)
      expect(service.source).not.toBe('environment')
      expect(service.url).not.toBe(ours.url)
    }
  })

  test('may name several servers, as full URLs or as hosts of one', async () => {
    await using ours = await startService('redis-independent', { needsControl: true, count: 2 })
    const ports = ours.servers.map(({ port }) => port)
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join(',')
    vi.stubEnv('LOCKS_TEST_REDIS_URLS', ours.url)
    vi.stubEnv('LOCKS_TEST_REDIS_SENTINEL_URL', `redis-sentinel://user:secret@${hosts}/main`)
    const independent = await startService('redis-independent')
    expect(independent.servers.map(({ port }) => port)).toEqual(ports)
    const sentinel = await startService('redis-sentinel')
    expect(sentinel.servers.map(({ url }) => url)).toEqual(
      ports.map((port) => `redis-sentinel://user:secret@127.0.0.1:${port}/main`),
    )
  })

  test('that cannot be reached is an error without its password', async () => {
    const [port] = await freePorts(1)
    vi.stubEnv('LOCKS_TEST_REDIS_URL', `redis://:secret@127.0.0.1:${port}`)
    const starting = startService('redis')
    await expect(starting).rejects.toThrow(
      `LOCKS_TEST_REDIS_URL names 127.0.0.1:${port}, which cannot be reached`,
    )
    await expect(starting).rejects.not.toThrow('secret')
  })
})

describe('a service that is not available', () => {
  let empty: string
  beforeEach(async () => {
    empty = await mkdtemp(join(tmpdir(), 'locks-empty-'))
    vi.stubEnv('LOCKS_TEST_BIN_PATH', empty)
    vi.stubEnv('LOCKS_TEST_CONTAINERS', '0')
    vi.stubEnv('LOCKS_TEST_APT', '0')
    vi.stubEnv('ZOOKEEPER_HOME', undefined)
  })
  afterEach(() => rm(empty, { recursive: true }))

  const names: readonly (readonly [ServiceKind, string, string])[] = [
    ['redis', 'LOCKS_TEST_REDIS_URL', 'redis-server'],
    ['redis-cluster', 'LOCKS_TEST_REDIS_CLUSTER_URL', 'redis-server'],
    ['postgres', 'LOCKS_TEST_POSTGRES_URL', 'postgresql'],
    ['mariadb', 'LOCKS_TEST_MARIADB_URL or LOCKS_TEST_MYSQL_URL', 'mariadb'],
    ['zookeeper', 'LOCKS_TEST_ZOOKEEPER_URL', 'default-jre-headless'],
  ]
  test.each(names)(
    '%s: says what was tried, what to install and what to set',
    async (kind, variable, advice) => {
      const starting = startService(kind, { needsControl: true })
      await expect(starting).rejects.toThrow(/containers: switched off by LOCKS_TEST_CONTAINERS=0/)
      await expect(starting).rejects.toThrow(/this machine: not installed/)
      await expect(starting).rejects.toThrow(/apt: switched off by LOCKS_TEST_APT=0/)
      await expect(starting).rejects.toThrow(advice)
      await expect(starting).rejects.toThrow(`or set ${variable}.`)
    },
  )

  test('prepareServices names everything that is missing at once', async () => {
    const preparing = prepareServices(['redis', 'redis-cluster', 'postgres'])
    await expect(preparing).rejects.toThrow(/^redis is not available[^]*^postgres is not available/m)
  })
})

describe('ports', () => {
  test('belong to one who asked for them until they are returned', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, () => freePorts(40)))
    const ports = all.flat()
    expect(new Set(ports).size).toBe(ports.length)
    await returnPorts(ports)
  })
})

describeFamily('redis', 'what is here', () => {
  test('prepareServices says where each kind will come from', async () => {
    const sources = await prepareServices(selectedKinds())
    expect([...sources.keys()].toSorted()).toEqual([...selectedKinds()].toSorted())
  })

  test('a port that another program took first is replaced by another one', async () => {
    const [taken, free] = await freePorts(2)
    if (taken === undefined || free === undefined) throw new Error('two ports were asked for')
    const stranger = createServer((socket) => socket.end('+PONG\r\n'))
    await new Promise<void>((resolve) => stranger.listen(taken, '127.0.0.1', resolve))
    const supply = (await obtain(['redis'])).get('redis')
    if (supply === undefined) throw new Error('no redis')
    const picks = [[taken], [taken], [free]]
    await using service = await launchService('redis', supply, {}, () => Promise.resolve(picks.shift() ?? []))
    expect(service.server('redis').port).toBe(free)
    stranger.close()
  })
})
