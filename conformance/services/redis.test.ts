import { expect, test } from 'vitest'
import { redisCommand, startService } from './index.ts'
import { controlTests } from './test-support/control-tests.ts'
import { describeFamily } from './test-support/describe-family.ts'
import { expectSilenceWhilePaused } from './test-support/reachability.ts'

describeFamily('redis', 'redis', () => {
  controlTests({
    kind: 'redis',
    settings: { appendonly: 'yes', appendfsync: 'always' },
    ask: (server) => redisCommand(server, 'PING'),
    write: (server) => redisCommand(server, 'SET', 'written', 'yes'),
    isWritten: async (server) => (await redisCommand(server, 'GET', 'written')) === 'yes',
  })

  test('keeps nothing by default, as a restart without persistence must lose locks', async () => {
    await using service = await startService('redis', { needsControl: true })
    const server = service.server('redis')
    await redisCommand(server, 'SET', 'written', 'yes')
    await server.restart()
    expect(await redisCommand(server, 'GET', 'written')).toBeNull()
  })

  test('takes settings by their own names', async () => {
    const settings = { 'maxmemory-policy': 'allkeys-lru', save: '60 1' }
    await using service = await startService('redis', { settings })
    const server = service.server('redis')
    expect(await redisCommand(server, 'CONFIG', 'GET', 'maxmemory-policy')).toEqual([
      'maxmemory-policy',
      'allkeys-lru',
    ])
    expect(await redisCommand(server, 'CONFIG', 'GET', 'save')).toEqual(['save', '60 1'])
  })

  test('a setting it does not know makes the start fail with the words of the server', async () => {
    const starting = startService('redis', { settings: { 'no-such-setting': 1 } })
    await expect(starting).rejects.toThrow(/ended before it was ready[^]*no-such-setting/)
  })

  test('asking for a server that is not there names those that are', async () => {
    await using service = await startService('redis')
    expect(() => service.server('primary')).toThrow('redis has no server primary, only')
  })
})

describeFamily('redlock', 'independent redis servers', () => {
  test('one can be wiped, paused and killed while the others go on', async () => {
    await using service = await startService('redis-independent', { count: 5 })
    const [first, second, third, ...others] = service.servers
    if (first === undefined || second === undefined || third === undefined)
      throw new Error('five were asked for')
    expect(new Set(service.url.split(',')).size).toBe(5)
    for (const server of service.servers) await redisCommand(server, 'SET', 'written', server.name)
    await Promise.all([first.restart({ wipe: true }), third.kill()])
    expect(await redisCommand(first, 'GET', 'written')).toBeNull()
    await expectSilenceWhilePaused((server) => redisCommand(server, 'PING'), second)
    await expect(redisCommand(third, 'PING')).rejects.toThrow()
    for (const server of others) expect(await redisCommand(server, 'GET', 'written')).toBe(server.name)
  })
})
