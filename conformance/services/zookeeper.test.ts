import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import {
  fourLetterWord,
  startService,
  zookeeperCreate,
  zookeeperExists,
  zookeeperMode,
  type Server,
} from './index.ts'
import type { Supply } from './launcher.ts'
import { obtain } from './obtain.ts'
import { launchService } from './start-service.ts'
import { controlTests } from './test-support/control-tests.ts'
import { describeFamily } from './test-support/describe-family.ts'
import { expectNoTraces, tracesOf } from './test-support/reachability.ts'
import { eventually } from './timing.ts'

describeFamily('zookeeper', 'zookeeper', () => {
  controlTests({
    kind: 'zookeeper',
    ask: (server) => fourLetterWord(server, 'ruok'),
    write: (server) => zookeeperCreate(server, '/written'),
    isWritten: (server) => zookeeperExists(server, '/written'),
  })

  test('takes settings by their own names', async () => {
    await using service = await startService('zookeeper', {
      settings: { tickTime: 150, maxSessionTimeout: 7_000 },
    })
    const conf = await fourLetterWord(service.server('zookeeper'), 'conf')
    expect(conf).toContain('tickTime=150')
    expect(conf).toContain('maxSessionTimeout=7000')
  })
})

describeFamily('zookeeper', 'zookeeper ensemble', () => {
  test('survives the loss of its leader, stands still without a majority and recovers', async () => {
    const service = await startService('zookeeper-ensemble', { needsControl: true })
    const traces = tracesOf(service)
    const leader = await leaderOf(service.servers)
    await zookeeperCreate(leader, '/written')
    await leader.kill()
    const survivors = service.servers.filter((server) => server !== leader)
    const successor = await eventually('there is a new leader', () => leaderOf(survivors), {
      withinMs: 30_000,
    })
    expect(await zookeeperExists(successor, '/written')).toBe(true)

    await successor.pause()
    const [last] = survivors.filter((server) => server !== successor)
    if (last === undefined) throw new Error('three servers were asked for')
    await eventually(
      'the last one has stopped serving',
      async () => {
        return (await fourLetterWord(last, 'srvr')).includes('not currently serving')
      },
      { withinMs: 30_000 },
    )

    await successor.resume()
    await leader.start()
    for (const server of service.servers) {
      await eventually(`${server.name} serves`, () => zookeeperMode(server), { withinMs: 30_000 })
    }
    expect(await zookeeperExists(last, '/written')).toBe(true)
    await service.close()
    await expectNoTraces(traces)
  })

  test('is brought up on other ports when a stranger takes one that is bound late', async () => {
    const supply = (await obtain(['zookeeper-ensemble'])).get('zookeeper-ensemble')
    if (supply === undefined) throw new Error('no zookeeper')
    const stranger = createServer()
    const electionPort = 2
    const robbed: Supply = {
      ...supply,
      // After the last look at the ports, before any server has bound one.
      async open(ports, env) {
        if (!stranger.listening) stranger.listen(ports[electionPort], '127.0.0.1')
        return supply.open(ports, env)
      },
    }
    await using service = await launchService('zookeeper-ensemble', robbed, {})
    for (const server of service.servers) await zookeeperMode(server)
    stranger.close()
  })

  async function leaderOf(servers: readonly Server[]): Promise<Server> {
    for (const server of servers) if ((await zookeeperMode(server)) === 'leader') return server
    throw new Error('no leader')
  }
})
