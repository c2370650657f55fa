import type { Launcher } from '../launcher.ts'
import { freePorts } from '../ports.ts'
import { redisProgram, redisServer } from '../programs/redis.ts'
import type { Address, Server, Service, Settings } from '../service.ts'
import { eventually, scaled } from '../timing.ts'
import { redisCommand, redisFields } from '../wire/redis.ts'
import { hostList, portAt, type Topology } from './topology.ts'

/** The name under which the sentinels know the primary. */
export const sentinelPrimaryName = 'locks'

const sentinelCount = 3
const quorum = 2

// The replica logs in as a user of its own, so that a test can cut replication and nothing else.
const replicationUser = 'replication'
const replication = [
  `user ${replicationUser} on nopass +psync +replconf +ping`,
  `masteruser ${replicationUser}`,
  'masterauth unused',
  'repl-diskless-sync-delay 0',
]

/**
 * A primary, its replica (or `count` of them), and three sentinels of which two must agree: one of them may fail as
 * well.
 */
export const redisSentinel: Topology = {
  program: redisProgram,
  ports: ({ count = 1 }) => freePorts(1 + count + sentinelCount),
  async bring(launcher, ports, { settings, sentinelSettings, count = 1 }) {
    const primaryPort = portAt(ports, 0)
    const primary = await launcher.launch(
      redisServer({ name: 'primary', port: primaryPort, settings, lines: replication }),
    )
    const following = [...replication, `replicaof 127.0.0.1 ${primaryPort}`]
    const replicas = await Promise.all(
      ports.slice(1, 1 + count).map((port, index) => {
        const name = index === 0 ? 'replica' : `replica-${index + 1}`
        return launcher.launch(redisServer({ name, port, settings, lines: following }))
      }),
    )
    // Sentinels ask for replicas only every ten seconds; this way the first answer already names them.
    for (const replica of replicas)
      await eventually(`${replica.name} follows`, async () => {
        return (await redisFields(replica, 'INFO', 'replication')).get('master_link_status') === 'up'
      })
    const rest = ports.slice(1 + count)
    const sentinels = await startSentinels(
      launcher,
      { port: primaryPort, replicas: count },
      rest,
      sentinelSettings,
    )
    return {
      url: `redis-sentinel://${hostList(sentinels)}/${sentinelPrimaryName}`,
      servers: [primary, ...replicas, ...sentinels],
    }
  },
}

async function startSentinels(
  launcher: Launcher,
  primary: { readonly port: number; readonly replicas: number },
  ports: readonly number[],
  settings: Settings = {},
): Promise<readonly Server[]> {
  const own = { 'down-after-milliseconds': scaled(1_000), 'failover-timeout': scaled(5_000), ...settings }
  const lines = [
    `sentinel monitor ${sentinelPrimaryName} 127.0.0.1 ${primary.port} ${quorum}`,
    ...Object.entries(own).map(([key, value]) => `sentinel ${key} ${sentinelPrimaryName} ${value}`),
  ]
  const plans = ports.map((port, index) =>
    redisServer({ name: `sentinel-${index + 1}`, port, lines, sentinel: true }),
  )
  const sentinels = await Promise.all(plans.map((plan) => launcher.launch(plan)))
  for (const sentinel of sentinels) {
    await eventually(`${sentinel.name} knows the others`, async () => {
      const seen = await redisFields(sentinel, 'SENTINEL', 'MASTER', sentinelPrimaryName)
      const others = seen.get('num-other-sentinels') === String(sentinelCount - 1)
      return others && seen.get('num-slaves') === String(primary.replicas)
    })
  }
  return sentinels
}

/** Where the sentinels send clients at present. */
export async function currentPrimary(service: Service): Promise<Address> {
  const sentinel = service.server('sentinel-1')
  const reply = await redisCommand(sentinel, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', sentinelPrimaryName)
  if (reply === null || typeof reply !== 'object') throw new Error('the sentinels know no primary')
  return { host: String(reply[0]), port: Number(reply[1]) }
}

/**
 * From now on the replica receives nothing, while clients and sentinels notice nothing: what is written
 * next is lost by a failover. Pausing the replica would not do, as it catches up from its socket buffer.
 */
export async function cutReplication(service: Service): Promise<void> {
  const primary = service.server('primary')
  await redisCommand(primary, 'ACL', 'SETUSER', replicationUser, 'off')
  await redisCommand(primary, 'CLIENT', 'KILL', 'TYPE', 'replica')
}

export async function healReplication(service: Service): Promise<void> {
  await redisCommand(service.server('primary'), 'ACL', 'SETUSER', replicationUser, 'on')
}
