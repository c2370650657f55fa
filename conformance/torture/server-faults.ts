import { setTimeout as pass } from 'node:timers/promises'
import type { ServerFault } from '../../packages/cli/dist/torture/faults.js'
import type { Random } from '../../packages/cli/dist/torture/random.js'
import {
  mariadbQuery,
  postgresQuery,
  redisCommand,
  redisConversation,
  zookeeperMode,
} from '../services/index.ts'
import type { Server, Service } from '../services/index.ts'

const PAUSE_MS = [100, 1_500] as const

/** What happens to servers of any kind: killed, stopped in order, paused; one of them at a time. */
export function processFaults(servers: readonly Server[]): readonly ServerFault[] {
  return [
    { name: 'server-kill', run: (random) => oneOf(servers, random).restart({ hard: true }) },
    { name: 'server-restart', run: (random) => oneOf(servers, random).restart() },
    { name: 'server-pause', run: (random) => pause(oneOf(servers, random), random) },
  ]
}

async function pause(server: Server, random: Random): Promise<void> {
  await server.pause()
  try {
    await pass(random.between(...PAUSE_MS))
  } finally {
    await server.resume()
  }
}

export function redisFaults(servers: readonly Server[]): readonly ServerFault[] {
  return [
    {
      name: 'client-kill',
      run: async (random) => {
        const server = oneOf(servers, random)
        const type = random.pick(['normal', 'pubsub'])
        await redisCommand(server, 'CLIENT', 'KILL', 'TYPE', type)
      },
    },
    {
      name: 'script-flush',
      run: async (random) => void (await redisCommand(oneOf(servers, random), 'SCRIPT', 'FLUSH')),
    },
    {
      name: 'maxclients',
      // Every client is cut, and refused with an error when it comes back.
      run: (random) =>
        redisConversation(oneOf(servers, random), async (ask) => {
          await ask('CONFIG', 'SET', 'maxclients', 1)
          await ask('CLIENT', 'KILL', 'TYPE', 'normal')
          await pass(random.between(5, 150))
          await ask('CONFIG', 'SET', 'maxclients', 10_000)
        }),
    },
  ]
}

/** A failover that an operator asks for. Sentinels refuse a second one too soon after the first. */
export function sentinelFaults(service: Service, primaryName: string): readonly ServerFault[] {
  return [
    {
      name: 'failover',
      run: async () => {
        try {
          await redisCommand(service.server('sentinel-1'), 'SENTINEL', 'FAILOVER', primaryName)
        } catch (error) {
          if (!(error instanceof Error) || !/INPROG|NOGOODSLAVE/.test(error.message)) throw error
        }
        await pass(1_000)
      },
    },
  ]
}

export function postgresFaults(server: Server): readonly ServerFault[] {
  const sql = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND random() < 0.5`
  return [{ name: 'terminate-backends', run: async () => void (await postgresQuery(server, sql)) }]
}

export function mysqlFaults(server: Server): readonly ServerFault[] {
  const sql = `SELECT ID FROM information_schema.PROCESSLIST
    WHERE ID <> CONNECTION_ID() AND USER = 'locks' ORDER BY RAND() LIMIT 1`
  const killOne = async (): Promise<void> => {
    const id = await mariadbQuery(server, sql)
    // It may have ended by itself meanwhile.
    if (id !== null) await mariadbQuery(server, `KILL ${id}`).catch(() => undefined)
  }
  return [
    {
      name: 'kill-connections',
      run: async (random) => {
        for (let n = random.between(1, 4); n > 0; n -= 1) await killOne()
      },
    },
  ]
}

/** The leader stops, for longer than the others wait for it. */
export function leaderFaults(servers: readonly Server[]): readonly ServerFault[] {
  const leader = async (): Promise<Server | undefined> => {
    for (const server of servers) if ((await zookeeperMode(server)) === 'leader') return server
    return undefined
  }
  return [
    {
      name: 'leader-change',
      run: async () => {
        const server = await leader()
        await server?.restart({ hard: true })
      },
    },
  ]
}

function oneOf(servers: readonly Server[], random: Random): Server {
  const [first, ...others] = servers
  if (first === undefined) throw new Error('there is no server to hurt')
  return random.pick([first, ...others])
}
