import { connect } from 'node:net'
import { once } from 'node:events'
import type { Address, Server, ServiceKind } from '../service.ts'
import { scaled } from '../timing.ts'

/** The variables that name a service of each kind; the first one that is set counts. */
export const variables: Readonly<Record<ServiceKind, readonly string[]>> = {
  redis: ['LOCKS_TEST_REDIS_URL'],
  'redis-independent': ['LOCKS_TEST_REDIS_URLS'],
  'redis-sentinel': ['LOCKS_TEST_REDIS_SENTINEL_URL'],
  'redis-cluster': ['LOCKS_TEST_REDIS_CLUSTER_URL'],
  postgres: ['LOCKS_TEST_POSTGRES_URL'],
  'postgres-standby': ['LOCKS_TEST_POSTGRES_STANDBY_URL'],
  mariadb: ['LOCKS_TEST_MARIADB_URL', 'LOCKS_TEST_MYSQL_URL'],
  zookeeper: ['LOCKS_TEST_ZOOKEEPER_URL'],
  'zookeeper-ensemble': ['LOCKS_TEST_ZOOKEEPER_ENSEMBLE_URL'],
}

const defaultPorts: Readonly<Record<ServiceKind, number>> = {
  redis: 6379,
  'redis-independent': 6379,
  'redis-sentinel': 26_379,
  'redis-cluster': 6379,
  postgres: 5432,
  'postgres-standby': 5432,
  mariadb: 3306,
  zookeeper: 2181,
  'zookeeper-ensemble': 2181,
}

export interface GivenService {
  readonly variable: string
  readonly url: string
}

export function givenService(kind: ServiceKind): GivenService | undefined {
  for (const variable of variables[kind]) {
    const url = process.env[variable]?.trim()
    if (url !== undefined && url !== '') return { variable, url }
  }
  return undefined
}

/** Checks that the servers can be reached, and wraps them so that nobody stops what is not ours. */
export async function givenServers(
  kind: ServiceKind,
  { variable, url }: GivenService,
): Promise<readonly Server[]> {
  const servers = splitUrl(url, variable).map((one, index) => givenServer(kind, one, variable, index))
  await Promise.all(servers.map((server) => reach(server, variable)))
  return servers
}

/** One URL per server, out of `a://h:1,h:2/x` as well as `a://h:1,a://h:2`. */
function splitUrl(url: string, variable: string): URL[] {
  const [, prefix = '', rest = ''] = /^([a-z][\w+.-]*:\/\/(?:[^/,@]*@)?)(.*)$/i.exec(url) ?? []
  if (rest === '') throw new Error(`${variable} is not a URL with a scheme and a host`)
  const [, path = ''] = /^[^/?]*([/?].*)?$/.exec(rest.split(',').at(-1) ?? '') ?? []
  return rest.split(',').map((part) => {
    if (part.includes('://')) return new URL(part)
    return new URL(`${prefix}${part.replace(/[/?].*$/, '')}${path}`)
  })
}

function givenServer(kind: ServiceKind, url: URL, variable: string, index: number): Server {
  const refuse = (): Promise<never> =>
    Promise.reject(
      new Error(`this server was given by ${variable} and is not ours to stop, pause or restart`),
    )
  return {
    name: `given-${index + 1}`,
    host: url.hostname,
    port: Number(url.port) || defaultPorts[kind],
    url: url.href,
    pid: undefined,
    directory: undefined,
    start: refuse,
    stop: refuse,
    kill: refuse,
    pause: refuse,
    resume: refuse,
    restart: refuse,
    signal: refuse,
  }
}

async function reach({ host, port }: Address, variable: string): Promise<void> {
  const socket = connect({ host, port })
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(scaled(5_000)) })
  } catch (cause) {
    throw new Error(`${variable} names ${host}:${port}, which cannot be reached`, { cause })
  } finally {
    socket.destroy()
  }
}
