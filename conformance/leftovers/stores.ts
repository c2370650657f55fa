import { migrate as migrateMysql } from '@locks/mysql'
import { migrate as migratePostgres } from '@locks/postgres'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  fourLetterWord,
  mariadbQuery,
  postgresQuery,
  redisCommand,
  redisFields,
  startService,
} from '../services/index.ts'
import type { Server } from '../services/index.ts'

const run = promisify(execFile)

const pidsOf = (servers: readonly Server[]): readonly number[] =>
  servers.flatMap(({ pid }) => (pid === undefined ? [] : [pid]))

/** What a store has at a moment: how many names it still knows, and how much memory or disk that takes. */
export interface Kept {
  readonly names: number
  readonly bytes: number
}

export interface Store {
  /** Without `fenceIdleMs`. */
  readonly config: { readonly adapter: string } & Readonly<Record<string, unknown>>
  kept(): Promise<Kept>
  /** Main processes of its servers. */
  readonly pids: readonly number[]
  close(): Promise<unknown>
}

async function ofRedis(server: Server): Promise<Kept> {
  const info = await redisFields(server, 'INFO', 'memory')
  return { names: Number(await redisCommand(server, 'DBSIZE')), bytes: Number(info.get('used_memory')) }
}

async function redis(config: (url: string) => Store['config']): Promise<Store> {
  const service = await startService('redis')
  const server = service.server('redis')
  const url = `redis://${server.host}:${server.port}`
  return {
    config: config(url),
    kept: () => ofRedis(server),
    pids: pidsOf([server]),
    close: () => service.close(),
  }
}

async function redlock(): Promise<Store> {
  const service = await startService('redis-independent', { count: 3 })
  const nodes = service.servers.map(({ host, port }) => `redis://${host}:${port}`)
  return {
    config: { adapter: '@locks/redlock', nodes },
    async kept() {
      const all = await Promise.all(service.servers.map(ofRedis))
      return {
        names: Math.max(...all.map(({ names }) => names)),
        bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
      }
    },
    pids: pidsOf(service.servers),
    close: () => service.close(),
  }
}

async function postgres(strategy: string): Promise<Store> {
  const service = await startService('postgres')
  const server = service.server('postgres')
  await migratePostgres({ url: server.url })
  const tables = strategy === 'row' ? ['locks_holders', 'locks_rows'] : ['locks']
  const ask = async (sql: string): Promise<number> => Number(await postgresQuery(server, `SELECT ${sql}`))
  return {
    config: { adapter: '@locks/postgres', url: server.url, strategy },
    kept: async () => ({
      names: await ask(`count(*) FROM ${tables[0]} WHERE name <> ''`),
      bytes: await ask(tables.map((table) => `pg_total_relation_size('${table}')`).join(' + ')),
    }),
    pids: pidsOf(service.servers),
    close: () => service.close(),
  }
}

async function mysql(strategy: string): Promise<Store> {
  const service = await startService('mariadb')
  const server = service.server('mariadb')
  await migrateMysql({ url: server.url })
  const table = { row: 'locks_holders', named: 'locks_named' }[strategy] ?? 'locks'
  const ask = async (sql: string): Promise<number> => Number(await mariadbQuery(server, `SELECT ${sql}`))
  return {
    config: { adapter: '@locks/mysql', url: server.url, strategy },
    kept: async () => ({
      names: await ask(`COUNT(*) FROM ${table}`),
      // The files themselves: the sizes in information_schema.tables are estimates that lag behind.
      bytes: await ask(
        "SUM(file_size) FROM information_schema.innodb_sys_tablespaces WHERE name LIKE '%/locks%'",
      ),
    }),
    pids: pidsOf(service.servers),
    close: () => service.close(),
  }
}

async function diskBytes(directory: string): Promise<number> {
  // It fails with what it found so far when a file goes meanwhile.
  const { stdout } = await run('du', ['-sk', directory]).catch((error: unknown) => {
    if (error instanceof Error && 'stdout' in error) return { stdout: String(error.stdout) }
    throw error
  })
  return Number.parseInt(stdout, 10) * 1_024
}

async function file(): Promise<Store> {
  const directory = await mkdtemp(join(process.env['LOCKS_LEFTOVERS_FOLDER'] ?? tmpdir(), 'store-'))
  return {
    config: { adapter: '@locks/cas', store: 'file', directory },
    async kept() {
      const names = (await readdir(directory)).filter((entry) => !entry.startsWith('.')).length
      return { names, bytes: await diskBytes(directory) }
    },
    pids: [],
    close: () => rm(directory, { recursive: true, force: true }),
  }
}

async function zookeeper(): Promise<Store> {
  const service = await startService('zookeeper')
  const [server] = service.servers
  if (server === undefined) throw new Error('a service without servers')
  const ask = async (key: string): Promise<number> =>
    Number(new RegExp(`^${key}\\t(\\d+)$`, 'm').exec(await fourLetterWord(server, 'mntr'))?.[1])
  const before = await ask('zk_znode_count')
  return {
    config: { adapter: '@locks/zookeeper', servers: `${server.host}:${server.port}` },
    kept: async () => ({
      names: (await ask('zk_znode_count')) - before,
      bytes: await ask('zk_approximate_data_size'),
    }),
    pids: pidsOf(service.servers),
    close: () => service.close(),
  }
}

export const stores: ReadonlyMap<string, () => Promise<Store>> = new Map([
  ['redis', () => redis((url) => ({ adapter: '@locks/redis', url }))],
  ['cas-redis', () => redis((url) => ({ adapter: '@locks/cas', store: 'redis', url }))],
  ['redlock', redlock],
  ['postgres-unique-key', () => postgres('unique-key')],
  ['postgres-row', () => postgres('row')],
  ['mysql-unique-key', () => mysql('unique-key')],
  ['mysql-row', () => mysql('row')],
  ['mysql-named', () => mysql('named')],
  ['file', file],
  ['zookeeper', zookeeper],
])
