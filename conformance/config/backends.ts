import type { LocksConfig } from '@locks/core'
import { migrate as migrateMysql } from '@locks/mysql'
import { migrate as migratePostgres } from '@locks/postgres'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sentinelPrimaryName, startService } from '../services/index.ts'
import type { Service, ServiceKind } from '../services/index.ts'

/** A backend as a program's config names it. */
export interface Backend {
  /** As `LOCKS_ONLY` knows it. */
  readonly name: string
  readonly service?: ServiceKind
  readonly config: (service: Service) => LocksConfig | Promise<LocksConfig>
}

const hostsOf = ({ servers }: Service): string => servers.map(({ host, port }) => `${host}:${port}`).join(',')

async function postgres({ url }: Service, strategy: string): Promise<string> {
  await migratePostgres({ url })
  return `${url}?strategy=${strategy}`
}

async function mysql({ url }: Service, strategy: string): Promise<string> {
  await migrateMysql({ url })
  return `${url}?strategy=${strategy}`
}

/** Every adapter with every topology and strategy it has. */
export const serverBackends: readonly (Backend & { readonly service: ServiceKind })[] = [
  {
    name: 'cas-redis',
    service: 'redis',
    config: ({ url }) => ({ adapter: '@locks/cas', store: 'redis', url }),
  },
  { name: 'redis', service: 'redis', config: ({ url }) => url },
  {
    name: 'redis-sentinel',
    service: 'redis-sentinel',
    config: ({ servers }) => {
      const sentinels = servers.filter(({ name }) => name.startsWith('sentinel'))
      const hosts = sentinels.map(({ host, port }) => `${host}:${port}`)
      return `redis+sentinel://${hosts.join(',')}/${sentinelPrimaryName}`
    },
  },
  {
    name: 'redis-cluster',
    service: 'redis-cluster',
    config: (service) => `redis+cluster://${hostsOf(service)}`,
  },
  {
    name: 'redlock',
    service: 'redis-independent',
    config: ({ servers }) => `redlock:${servers.map(({ url }) => url).join(',')}?quorum=2`,
  },
  {
    name: 'zookeeper',
    service: 'zookeeper',
    config: (service) => `zookeeper://${hostsOf(service)}?sessionTimeoutMs=30s`,
  },
  {
    name: 'zookeeper-ensemble',
    service: 'zookeeper-ensemble',
    config: (service) => `zookeeper://${hostsOf(service)}`,
  },
  {
    name: 'postgres-unique-key',
    service: 'postgres',
    config: (service) => postgres(service, 'unique-key'),
  },
  { name: 'postgres-row', service: 'postgres', config: (service) => postgres(service, 'row') },
  { name: 'postgres-advisory', service: 'postgres', config: (service) => postgres(service, 'advisory') },
  { name: 'mysql-unique-key', service: 'mariadb', config: (service) => mysql(service, 'unique-key') },
  { name: 'mysql-row', service: 'mariadb', config: (service) => mysql(service, 'row') },
  {
    name: 'mysql-named',
    service: 'mariadb',
    config: async (service) => (await mysql(service, 'named')).replace(/^mysql:/, 'mariadb:'),
  },
]

/** Runs `use` with the config of a backend whose server lives as long. */
export async function onServer(
  { service: kind, config }: (typeof serverBackends)[number],
  use: (config: LocksConfig) => Promise<void>,
): Promise<void> {
  await using service = await startService(kind)
  await use(await config(service))
}

export async function onDirectory(use: (config: LocksConfig) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'locks-swap-'))
  try {
    await use(`file:${directory}`)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
