import { redisFrames } from '@locks/core/conformance'
import type { Subject } from '@locks/core/conformance'
import { redisCommand, sentinelPrimaryName, startService } from '../../../../conformance/services/index.ts'
import type { Address, Server, Service } from '../../../../conformance/services/index.ts'
import { layoutOf } from '../../src/record.ts'

const secret = 'p@ss/word:1'
/** Locks outlive a restart; clients log in with a password that must not show. */
const settings = {
  appendonly: 'yes',
  appendfsync: 'always',
  user: `locks on >${secret} ~* &* +@all`,
}
const login = { username: 'locks', password: secret }

/** What is left for a free lock, other than its fence. Of several servers, each knows its own part. */
function leftoversOn(servers: readonly Server[]): (lock: string) => Promise<readonly string[]> {
  return async (lock) => {
    const layout = layoutOf(`locks:${lock}`, servers.length > 1)
    const keys = [layout.lock, layout.queue]
    const left: string[] = []
    for (const server of servers)
      for (const key of keys) {
        const answer = await redisCommand(server, 'EXISTS', key).catch(movedIsNothing)
        if (answer === 1) left.push(`${server.name} ${key}`)
      }
    return left
  }
}

/** A server of a Cluster has nothing of a slot that is another's. */
function movedIsNothing(error: unknown): 0 {
  if (error instanceof Error && error.message.startsWith('MOVED')) return 0
  throw error
}

export async function singleSubject(): Promise<{ readonly subject: Subject; readonly service: Service }> {
  const service = await startService('redis', { settings, needsControl: true })
  const server = service.server('redis')
  const config = { adapter: '@locks/redis', connection: { host: server.host, port: server.port, ...login } }
  const subject: Subject = {
    name: 'redis',
    config,
    wire: {
      frames: redisFrames,
      target: addressOf(server),
      via: ({ host, port }) => ({ ...config, connection: { host, port, ...login } }),
    },
    server: {
      pause: () => server.pause(),
      resume: () => server.resume(),
      restart: () => server.restart({ hard: true }),
    },
    leftovers: leftoversOn([server]),
    secret,
  }
  return { subject, service }
}

export async function sentinelSubject(): Promise<{ readonly subject: Subject; readonly service: Service }> {
  // The rules pause the primary for longer than a failover would wait; failovers have tests of their own.
  const sentinelSettings = { 'down-after-milliseconds': 60_000 }
  const service = await startService('redis-sentinel', { settings, sentinelSettings, needsControl: true })
  const primary = service.server('primary')
  const sentinels = service.servers.filter(({ name }) => name.startsWith('sentinel'))
  const connection = { sentinels: sentinels.map(addressOf), name: sentinelPrimaryName, ...login }
  const config = { adapter: '@locks/redis', connection }
  const natMap = (to: Address) => ({ [`${primary.host}:${primary.port}`]: addressOf(to) })
  const subject: Subject = {
    name: 'redis-sentinel',
    config,
    wire: {
      frames: redisFrames,
      target: addressOf(primary),
      via: (proxy) => ({ ...config, connection: { ...connection, natMap: natMap(proxy) } }),
    },
    server: {
      pause: () => primary.pause(),
      resume: () => primary.resume(),
      restart: () => primary.restart({ hard: true }),
    },
    leftovers: leftoversOn([primary]),
    secret,
  }
  return { subject, service }
}

/**
 * A Cluster has as many wires as nodes. `pinned` keeps all its locks on the first node, so that the wire to
 * that one is the wire; `subject` spreads them over all slots.
 */
export async function clusterSubjects(): Promise<{
  readonly subject: Subject
  readonly pinned: Subject
  readonly service: Service
}> {
  const service = await startService('redis-cluster', { settings, needsControl: true })
  const nodes = service.servers.map(addressOf)
  const [first] = nodes
  if (first === undefined) throw new Error('a Cluster without nodes')
  const options = { redisOptions: login }
  const config = { adapter: '@locks/redis', cluster: { nodes, options } }
  const subject: Subject = {
    name: 'redis-cluster',
    config,
    server: {
      pause: () => each(service, (server) => server.pause()),
      resume: () => each(service, (server) => server.resume()),
      restart: () => each(service, (server) => server.restart({ hard: true })),
    },
    leftovers: leftoversOn(service.servers),
    secret,
  }
  const prefix = 'locks:{06S}:'
  const leftovers = leftoversOn(service.servers)
  const natMap = (to: Address) => ({ [`${first.host}:${first.port}`]: addressOf(to) })
  const pinned: Subject = {
    ...subject,
    config: { ...config, prefix },
    wire: {
      frames: redisFrames,
      target: first,
      via: (proxy) => ({
        adapter: '@locks/redis',
        cluster: { nodes: [addressOf(proxy)], options: { ...options, natMap: natMap(proxy) } },
        prefix,
      }),
    },
    leftovers: (lock) => leftovers(`{06S}:${lock}`),
  }
  return { subject, pinned, service }
}

async function each(service: Service, act: (server: Server) => Promise<void>): Promise<void> {
  await Promise.all(service.servers.map(act))
}

function addressOf({ host, port }: Address): Address {
  return { host, port }
}
