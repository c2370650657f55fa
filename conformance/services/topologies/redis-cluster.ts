import { freePorts } from '../ports.ts'
import { redisProgram, redisServer } from '../programs/redis.ts'
import type { Server } from '../service.ts'
import { eventually, scaled } from '../timing.ts'
import { redisCommand, redisFields } from '../wire/redis.ts'
import { countOf, hostList, type Topology } from './topology.ts'

const slots = 16_384
const busOffset = 10_000

/** Masters only, the slots shared out evenly. */
export const redisCluster: Topology = {
  program: redisProgram,
  ports: (options) => freePorts(countOf(options), { companion: busOffset }),
  async bring(launcher, ports, options) {
    const settings = {
      'cluster-enabled': 'yes',
      // Beside `data`: a wiped node loses its keys, not its place in the cluster.
      'cluster-config-file': '../nodes.conf',
      'cluster-node-timeout': scaled(2_000),
      'cluster-announce-ip': '127.0.0.1',
      ...options.settings,
    }
    const plans = ports.map((port, index) => redisServer({ name: `node-${index + 1}`, port, settings }))
    const servers = await Promise.all(plans.map((plan) => launcher.launch(plan)))
    await form(servers)
    return { url: `redis-cluster://${hostList(servers)}`, servers }
  },
}

async function form(servers: readonly Server[]): Promise<void> {
  for (const [index, server] of servers.entries()) {
    // Distinct from the start, or the nodes spend seconds on settling who is who.
    await redisCommand(server, 'CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
    await redisCommand(server, 'CLUSTER', 'ADDSLOTS', ...slotsOf(index, servers.length))
  }
  const [first, ...others] = servers
  if (first === undefined) return
  for (const { host, port } of others) await redisCommand(first, 'CLUSTER', 'MEET', host, port)
  for (const server of servers) {
    await eventually(`${server.name} sees the whole cluster`, async () => {
      const info = await redisFields(server, 'CLUSTER', 'INFO')
      return info.get('cluster_state') === 'ok' && info.get('cluster_known_nodes') === String(servers.length)
    })
  }
}

function slotsOf(index: number, nodes: number): number[] {
  const start = Math.floor((slots * index) / nodes)
  const end = Math.floor((slots * (index + 1)) / nodes)
  return Array.from({ length: end - start }, (_, offset) => start + offset)
}
