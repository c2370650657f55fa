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

/** A primary, its replica, and three sentinels of which two must agree: one of them may fail as well. */
export const redisSentinel: Topology = {
  program: redisProgram,
  ports: () => freePorts(2 + sentinelCount),
  async bring(launcher, ports, { settings, sentinelSettings }) {
    const [primaryPort, replicaPort] = [portAt(ports, 0), portAt(ports, 1)]
    const primary = await launcher.launch(
      redisServer({ name: 'primary', port: primaryPort, settings, lines: replication }),
    )
    const following = [...replication, `replicaof 127.0.0.1 ${primaryPort}`]
    const replica = await launcher.launch(
      redisServer({ name: 'replica', port: replicaPort, settings, lines: following }),
    )
    // Sentinels ask for replicas only every ten seconds; this way the first answer already names it.
    await eventually('the replica follows', async () => {
      return (await redisFields(replica, 'INFO', 'replication')).get('master_link_status') === 'up'
    })
    const sentinels = await startSentinels(launcher, primaryPort, ports.slice(2), sentinelSettings)
    return {
      url: `redis-sentinel://${hostList(sentinels)}/${sentinelPrimaryName}`,
      servers: [primary, replica, ...sentinels],
    }
  },
}

async function startSentinels(
  launcher: Launcher,
  primaryPort: number,
  ports: readonly number[],
  settings: Settings = {},
): Promise<readonly Server[]> {
  const own = { 'down-after-milliseconds': scaled(1_000), 'failover-timeout': scaled(5_000), ...settings }
  const lines = [
    `sentinel monitor ${sentinelPrimaryName} 127.0.0.1 ${primaryPort} ${quorum}`,
    ...Object.entries(own).map(([key, value]) => `sentinel ${key} ${sentinelPrimaryName} ${value}`),
  ]
  const plans = ports.map((port, index) =>
    redisServer({ name: `sentinel-${index + 1}`, port, lines, sentinel: true }),
  )
  const sentinels = await Promise.all(plans.map((plan) => launcher.launch(plan)))
  for (const sentinel of sentinels) {
    await eventually(`${sentinel.name} knows the others`, async () => {
      const seen = await redisFields(sentinel, 'SENTINEL', 'MASTER', sentinelPrimaryName)
      return seen.get('num-slaves') === '1' && seen.get('num-other-sentinels') === String(sentinelCount - 1)
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
