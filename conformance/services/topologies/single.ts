import { freePorts } from '../ports.ts'
import { mariadbProgram, mariadbServer } from '../programs/mariadb.ts'
import { postgresProgram, postgresServer } from '../programs/postgres.ts'
import type { Program, ServerPlan } from '../programs/program.ts'
import { redisProgram, redisServer } from '../programs/redis.ts'
import { zookeeperProgram, zookeeperServer } from '../programs/zookeeper.ts'
import type { Settings } from '../service.ts'
import { portAt, type Topology } from './topology.ts'

function single(
  program: Program,
  plan: (port: number, settings: Settings | undefined) => ServerPlan,
): Topology {
  return {
    program,
    ports: () => freePorts(1),
    async bring(launcher, ports, { settings }) {
      const server = await launcher.launch(plan(portAt(ports, 0), settings))
      return { url: server.url, servers: [server] }
    },
  }
}

export const redis: Topology = single(redisProgram, (port, settings) =>
  redisServer({ name: 'redis', port, settings }),
)

export const postgres: Topology = single(postgresProgram, (port, settings) =>
  postgresServer('postgres', port, settings),
)

export const mariadb: Topology = single(mariadbProgram, (port, settings) =>
  mariadbServer('mariadb', port, settings),
)

export const zookeeper: Topology = single(zookeeperProgram, (port, settings) =>
  zookeeperServer({ name: 'zookeeper', port, settings }),
)
