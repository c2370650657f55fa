import type { LocksConfig } from '@locks/core'
import { zookeeperFrames } from '@locks/core/conformance'
import type { ServerControl, Subject, Target } from '@locks/core/conformance'
import { afterAll } from 'vitest'
import { startService, zookeeperMode } from '../../../../conformance/services/index.ts'
import type { Server, Service } from '../../../../conformance/services/index.ts'
import { directoryOf } from '../../src/paths.ts'
import { rawClient, until } from './raw-client.ts'

const slow = Number(process.env['LOCKS_TEST_SLOW'] ?? 1)
const timeoutMs = 3_000
const sessionTimeoutMs = Math.ceil(timeoutMs * slow)
/** The servers round the end of a session up to the next tick. */
const tickMs = 200
/** The longest session these servers grant. */
const lasting = { sessionTimeoutMs: 60_000 }
const secret = 'pass:word/42'

function configOf(servers: string): LocksConfig {
  const auth = { scheme: 'digest', credentials: `conformance:${secret}` }
  return { adapter: '@locks/zookeeper', servers, auth, acl: 'open', sessionTimeoutMs }
}

async function subject(name: string, service: Service, server: ServerControl): Promise<Subject> {
  afterAll(() => service.close())
  const servers = service.url.replace('zookeeper://', '')
  const [first] = service.servers
  if (first === undefined) throw new Error('a service without servers')
  await warmUp(servers)
  return {
    name,
    config: configOf(servers),
    lasting,
    wire: {
      target: { host: first.host, port: first.port },
      via: ({ host, port }: Target) => configOf(`${host}:${port}`),
      frames: zookeeperFrames,
    },
    server,
    secret,
    ttlMs: timeoutMs + tickMs,
    leftovers: (lock) => leftoversOf(servers, lock),
  }
}

/** The first requests of a server are slow until the JVM has compiled its code. */
async function warmUp(servers: string): Promise<void> {
  await using client = await rawClient(servers)
  for (let n = 0; n < 200; n += 1) await client.remove(await client.createMember('/warm-up-'))
}

/** The directory of an idle lock lingers for a second, and stays if there is anything in it. */
async function leftoversOf(servers: string, lock: string): Promise<readonly string[]> {
  await using client = await rawClient(servers)
  const directory = directoryOf(lock, { basePath: '/locks', rawPath: false })
  let left: readonly string[] | undefined = []
  try {
    await until(`${directory} is removed`, 5_000, async () => {
      left = await client.children(directory)
      return left === undefined
    })
    return []
  } catch {
    return [directory, ...(left ?? [])]
  }
}

export async function singleSubject(): Promise<Subject> {
  const service = await startService('zookeeper', { needsControl: true })
  const server = service.server('zookeeper')
  return subject('zookeeper', service, {
    pause: () => server.pause(),
    resume: () => server.resume(),
    restart: () => server.restart({ hard: true }),
  })
}

/** Three servers. `pause` stops two of them, so that the third runs without a quorum. */
export async function ensembleSubject(): Promise<Subject> {
  const service = await startService('zookeeper-ensemble', { needsControl: true })
  const { servers } = service
  return subject('zookeeper-ensemble', service, {
    async pause() {
      for (const server of servers.slice(0, 2)) await server.pause()
    },
    async resume() {
      for (const server of servers.slice(0, 2)) await server.resume()
      await allServe(servers)
    },
    async restart() {
      const leader = await leaderOf(servers)
      await leader.restart({ hard: true })
      await allServe(servers)
    },
  })
}

export async function leaderOf(servers: readonly Server[]): Promise<Server> {
  for (const server of servers) if ((await zookeeperMode(server)) === 'leader') return server
  throw new Error('no leader')
}

export async function allServe(servers: readonly Server[]): Promise<void> {
  for (const server of servers)
    await until(`${server.name} serves`, 30_000, async () => {
      try {
        return await zookeeperMode(server)
      } catch {
        return undefined
      }
    })
}
