import type { Subject } from '@locks/core/conformance'
import { redisCommand, startService } from '../../../../conformance/services/index.ts'
import type { Server, Service } from '../../../../conformance/services/index.ts'

const secret = 'p@ss/word:1'
const settings = {
  appendonly: 'yes',
  appendfsync: 'always',
  user: `locks on >${secret} ~* &* +@all`,
}

/**
 * The wire of a Redlock is the wires of all its nodes. With the proxy in front of a majority of one server
 * that stands for so many, a fault of the wire is a fault of the majority.
 */
export async function redlockSubject(count: number): Promise<{ subject: Subject; service: Service }> {
  const service = await startService('redis-independent', { count, settings, needsControl: true })
  const login = { username: 'locks', password: secret }
  const nodes = service.servers.map(({ host, port }) => ({ connection: { host, port, ...login } }))
  const each = async (act: (server: Server) => Promise<void>): Promise<void> => {
    await Promise.all(service.servers.map(act))
  }
  const subject: Subject = {
    name: `redlock-${count}`,
    config: { adapter: '@locks/redlock', nodes },
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
          if ((await redisCommand(server, 'EXISTS', lock)) !== 0) left.push(`${server.name} ${lock}`)
        if (left.length === 0 || looks === 50) return left
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
    },
    secret,
  }
  return { subject, service }
}
