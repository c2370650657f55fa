import { redisFrames } from '@locks/core/conformance'
import type { Subject } from '@locks/core/conformance'
import { redisCommand, startService } from '../../../../conformance/services/index.ts'
import type { Address, Server, Service } from '../../../../conformance/services/index.ts'

/** Dozens of clients connect at the same time here, on a machine that does other things too. */
const nodeTimeoutMs = 2_000

/** A grant takes two round trips to a majority, and dozens of clients share this machine. */
const ttlMs = 2_000

const secret = 'p@ss/word:1'
const settings = {
  appendonly: 'yes',
  appendfsync: 'always',
  user: `locks on >${secret} ~* &* +@all`,
}

/**
 * The wire of a Redlock is the wires of all its nodes, and the suite has one proxy. So `wired` has its nodes
 * in as many databases of one server: behind that proxy a fault is a fault of all of them.
 */
export async function redlockSubjects(
  count: number,
): Promise<{ readonly subject: Subject; readonly wired: Subject; readonly service: Service }> {
  const service = await startService('redis-independent', { count, settings, needsControl: true })
  const login = { username: 'locks', password: secret }
  const nodes = service.servers.map(({ host, port }) => ({ connection: { host, port, ...login } }))
  const each = async (act: (server: Server) => Promise<void>): Promise<void> => {
    await Promise.all(service.servers.map(act))
  }
  const subject: Subject = {
    name: `redlock-${count}`,
    config: { adapter: '@locks/redlock', nodes, nodeTimeoutMs },
    server: {
      pause: () => each((server) => server.pause()),
      resume: () => each((server) => server.resume()),
      restart: () => each((server) => server.restart({ hard: true })),
    },
    // A node beyond the majority may be a moment behind.
    leftovers: async (lock) => {
      for (let looks = 0; ; looks += 1) {
        const left: string[] = []
        for (const server of service.servers)
          if ((await redisCommand(server, 'EXISTS', `locks:${lock}`)) !== 0)
            left.push(`${server.name} ${lock}`)
        if (left.length === 0 || looks === 50) return left
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
    },
    secret,
    ttlMs,
  }
  const [first] = service.servers
  if (first === undefined) throw new Error('no nodes')
  const databases = ({ host, port }: Address) => ({
    adapter: '@locks/redlock',
    nodes: nodes.map((_, db) => ({ connection: { host, port, db, ...login } })),
    nodeTimeoutMs,
  })
  const { name, server } = subject
  const wired: Subject = {
    name,
    ...(server && { server }),
    secret,
    ttlMs,
    config: databases(first),
    wire: { target: { host: first.host, port: first.port }, via: databases, frames: redisFrames },
  }
  return { subject, wired, service }
}
