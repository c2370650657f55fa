import { migrateStore } from '@locks/core/adapter'
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

/** The adapter of this repository, or of an earlier version that is built in the folder `before`. */
const adapterOf = (name: string, before: string | undefined): string =>
  before === undefined ? `@locks/${name}` : join(before, 'packages', name, 'dist/index.js')

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

async function redlock(before?: string): Promise<Store> {
  const service = await startService('redis-independent', { count: 3 })
  const nodes = service.servers.map(({ host, port }) => `redis://${host}:${port}`)
  return {
    config: { adapter: adapterOf('redlock', before), nodes },
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

async function postgres(strategy: string, before?: string): Promise<Store> {
  const service = await startService('postgres')
  const server = service.server('postgres')
  const adapter = adapterOf('postgres', before)
  await migrateStore({ adapter, url: server.url })
  const tables = strategy === 'row' ? ['locks_holders', 'locks_rows'] : ['locks']
  const ask = async (sql: string): Promise<number> => Number(await postgresQuery(server, `SELECT ${sql}`))
  return {
    config: { adapter, url: server.url, strategy },
    kept: async () => ({
      names: await ask(`count(*) FROM ${tables[0]} WHERE name <> ''`),
      bytes: await ask(tables.map((table) => `pg_total_relation_size('${table}')`).join(' + ')),
    }),
    pids: pidsOf(service.servers),
    close: () => service.close(),
  }
}

async function mysql(strategy: string, before?: string): Promise<Store> {
  const service = await startService('mariadb')
  const server = service.server('mariadb')
  const adapter = adapterOf('mysql', before)
  await migrateStore({ adapter, url: server.url })
  const table = { row: 'locks_holders', named: 'locks_named' }[strategy] ?? 'locks'
  const ask = async (sql: string): Promise<number> => Number(await mariadbQuery(server, `SELECT ${sql}`))
  return {
    config: { adapter, url: server.url, strategy },
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

async function file(before?: string): Promise<Store> {
  const directory = await mkdtemp(join(process.env['LOCKS_LEFTOVERS_FOLDER'] ?? tmpdir(), 'store-'))
  return {
    config: { adapter: adapterOf('cas', before), store: 'file', directory },
    async kept() {
      const names = (await readdir(directory)).filter((entry) => !entry.startsWith('.')).length
      return { names, bytes: await diskBytes(directory) }
    },
    pids: [],
    close: () => rm(directory, { recursive: true, force: true }),
  }
}

async function zookeeper(before?: string): Promise<Store> {
  const service = await startService('zookeeper')
  const [server] = service.servers
  if (server === undefined) throw new Error('a service without servers')
  const ask = async (key: string): Promise<number> =>
    Number(new RegExp(`^${key}\\t(\\d+)$`, 'm').exec(await fourLetterWord(server, 'mntr'))?.[1])
  const atFirst = await ask('zk_znode_count')
  return {
    config: { adapter: adapterOf('zookeeper', before), servers: `${server.host}:${server.port}` },
    kept: async () => ({
      names: (await ask('zk_znode_count')) - atFirst,
      bytes: await ask('zk_approximate_data_size'),
    }),
    pids: pidsOf(service.servers),
    close: () => service.close(),
  }
}

/** By name; of an earlier version that is built in the folder `before`. */
export const stores: ReadonlyMap<string, (before?: string) => Promise<Store>> = new Map([
  ['redis', (before) => redis((url) => ({ adapter: adapterOf('redis', before), url }))],
  ['cas-redis', (before) => redis((url) => ({ adapter: adapterOf('cas', before), store: 'redis', url }))],
  ['redlock', redlock],
  ['postgres-unique-key', (before) => postgres('unique-key', before)],
  ['postgres-row', (before) => postgres('row', before)],
  ['mysql-unique-key', (before) => mysql('unique-key', before)],
  ['mysql-row', (before) => mysql('row', before)],
  ['mysql-named', (before) => mysql('named', before)],
  ['file', file],
  ['zookeeper', zookeeper],
])
