import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { LocksConfig } from '@locks/core'
import { migrate as migrateMysql } from '@locks/mysql'
import { migrate as migratePostgres } from '@locks/postgres'
import type { ServerFault } from '../../packages/cli/dist/torture/faults.js'
import type { Route } from '../../packages/cli/dist/route.js'
import { sentinelPrimaryName, startService } from '../services/index.ts'
import type { Address, Server, Service, ServiceKind, ServiceOptions } from '../services/index.ts'
import {
  leaderFaults,
  mysqlFaults,
  postgresFaults,
  processFaults,
  redisFaults,
  sentinelFaults,
} from './server-faults.ts'

/** A backend on servers of its own, and what can be done to those. */
export interface Deployment {
  readonly config: LocksConfig
  /** Through proxies, where servers announce addresses of their own. */
  readonly route?: Route
  readonly serverFaults: readonly ServerFault[]
  close(): Promise<void>
}

/** A lock that its server confirmed must survive kill -9. */
const durable = { appendonly: 'yes', appendfsync: 'always' }
const SESSION = '3s'
const givenRedis = fileURLToPath(
  import.meta.resolve('../../packages/redis/test/support/given-redis.fixture.mjs'),
)

type Parts = Omit<Deployment, 'close'>

async function on(
  kind: ServiceKind,
  options: ServiceOptions,
  parts: (service: Service) => Parts | Promise<Parts>,
): Promise<Deployment> {
  const service = await startService(kind, { ...options, needsControl: true })
  return { ...(await parts(service)), close: () => service.close() }
}

function oneRedis(config: (url: string) => LocksConfig): Promise<Deployment> {
  return on('redis', { settings: durable }, ({ url, servers }) => ({
    config: config(url),
    serverFaults: [...processFaults(servers), ...redisFaults(servers)],
  }))
}

function redlock(query: string): Promise<Deployment> {
  return on('redis-independent', { settings: durable }, ({ servers }) => ({
    config: `redlock:${servers.map(({ url }) => url).join(',')}${query}`,
    serverFaults: [...processFaults(servers), ...redisFaults(servers)],
  }))
}

function sql(kind: 'postgres' | 'mariadb', strategy: string): Promise<Deployment> {
  const settings = { max_connections: 400 }
  return on(kind, { settings }, async (service) => {
    const server = service.server(kind)
    await (kind === 'postgres' ? migratePostgres : migrateMysql)({ url: service.url })
    const own = kind === 'postgres' ? postgresFaults(server) : mysqlFaults(server)
    const session = strategy === 'unique-key' ? '' : `&sessionTtlMs=${SESSION}`
    return {
      config: `${service.url}?strategy=${strategy}${session}`,
      serverFaults: [...processFaults([server]), ...own, ...own],
    }
  })
}

function zookeeper(kind: 'zookeeper' | 'zookeeper-ensemble'): Promise<Deployment> {
  return on(kind, {}, ({ servers }) => ({
    config: `zookeeper://${servers.map(({ host, port }) => `${host}:${port}`).join(',')}?sessionTimeoutMs=${SESSION}`,
    serverFaults: [...processFaults(servers), ...(servers.length > 1 ? leaderFaults(servers) : [])],
  }))
}

function addressOf({ host, port }: Server): Address {
  return { host, port }
}

/** A client that maps each address that the servers announce to that of a proxy. */
function mapped(
  servers: readonly Server[],
  config: (at: (server: Server) => Address, natMap: Readonly<Record<string, Address>>) => LocksConfig,
): Route {
  return {
    targets: servers.map(addressOf),
    through: (addresses) => {
      const at = (server: Server): Address => addresses[servers.indexOf(server)] ?? addressOf(server)
      const natMap = new Map(servers.map((server) => [`${server.host}:${server.port}`, at(server)]))
      return config(at, Object.fromEntries(natMap))
    },
    remote: [],
  }
}

/** Every adapter with every topology and strategy it has. */
export const deployments: Readonly<Record<string, () => Promise<Deployment>>> = {
  redis: () => oneRedis((url) => url),
  'redis-given': () => oneRedis((url) => ({ adapter: `file://${givenRedis}`, url })),
  'redis-sentinel': () =>
    // One replica, which every grant waits for: of two, Sentinels may promote the one that does not have it.
    on('redis-sentinel', { settings: durable }, (service) => {
      const sentinels = service.servers.filter(({ name }) => name.startsWith('sentinel'))
      const data = service.servers.filter((server) => !sentinels.includes(server))
      const hosts = sentinels.map(({ host, port }) => `${host}:${port}`).join(',')
      return {
        config: `redis+sentinel://${hosts}/${sentinelPrimaryName}?waitForReplicas=1`,
        // A client that cannot hear its Sentinels cannot know of a failover: those are reached directly.
        route: mapped(data, (_at, natMap) => ({
          adapter: '@locks/redis',
          connection: { sentinels: sentinels.map(addressOf), name: sentinelPrimaryName, natMap },
          waitForReplicas: 1,
        })),
        serverFaults: [
          ...processFaults(data),
          ...redisFaults(data),
          ...sentinelFaults(service, sentinelPrimaryName),
        ],
      }
    }),
  'redis-cluster': () =>
    on('redis-cluster', { settings: durable }, ({ servers }) => ({
      config: `redis+cluster://${servers.map(({ host, port }) => `${host}:${port}`).join(',')}`,
      route: mapped(servers, (at, natMap) => ({
        adapter: '@locks/redis',
        cluster: { nodes: servers.map((server) => ({ ...at(server) })), options: { natMap } },
      })),
      serverFaults: [...processFaults(servers), ...redisFaults(servers)],
    })),
  'redlock-3': () => redlock(''),
  'redlock-3-unfenced': () => redlock('?fencing=false'),
  zookeeper: () => zookeeper('zookeeper'),
  'zookeeper-ensemble': () => zookeeper('zookeeper-ensemble'),
  'postgres-unique-key': () => sql('postgres', 'unique-key'),
  'postgres-row': () => sql('postgres', 'row'),
  'postgres-advisory': () => sql('postgres', 'advisory'),
  'mysql-unique-key': () => sql('mariadb', 'unique-key'),
  'mysql-row': () => sql('mariadb', 'row'),
  'mysql-named': () => sql('mariadb', 'named'),
  'cas-redis': () => oneRedis((url) => ({ adapter: '@locks/cas', store: 'redis', url })),
  'cas-file': async () => {
    const directory = await mkdtemp(join(tmpdir(), 'locks-torture-'))
    return {
      config: `file:${directory}`,
      serverFaults: [],
      close: () => rm(directory, { recursive: true, force: true }),
    }
  },
}
