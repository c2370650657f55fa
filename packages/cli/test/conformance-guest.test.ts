import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isAdapterSelected, scope } from '../../../conformance/selection.ts'
import {
  fourLetterWord,
  mariadbQuery,
  postgresQuery,
  redisCommand,
  startService,
} from '../../../conformance/services/index.ts'
import { scaled } from '../../../conformance/services/timing.ts'
import { directory, inTime, locks } from './support/cli.ts'

/** Odd names, a holder that is killed, waiters that are killed, and fences: what leaves most behind. */
const RULES = 'NAME-2,CRASH-1,CRASH-3,FENCE-1'

const usual = [
  ['redis', redis],
  ['cas', file],
] as const
const further = [
  ['postgres', postgres],
  ['mysql', mysql],
  ['zookeeper', zookeeper],
  ['redlock', redlock],
] as const
/** With every rule, since each may leave something of its own. */
const whole = [
  ['redis', redis],
  ['postgres', postgres],
] as const

/** An adapter is looked up from where the command runs. */
const folderOf = (adapter: string): string => fileURLToPath(new URL(`../../${adapter}`, import.meta.url))

const isSql = (adapter: string): boolean => adapter === 'postgres' || adapter === 'mysql'

interface Store {
  readonly url: string
  /** What the store has now. */
  readonly entries: () => Promise<unknown>
}

async function redis(): Promise<Store> {
  const service = await startService('redis', { needsControl: true })
  onTestFinished(() => service.close())
  const server = service.server('redis')
  const entries = async (): Promise<unknown> =>
    new Set([await redisCommand(server, 'KEYS', '*')].flat().map(String))
  return { url: service.url, entries }
}

async function postgres(): Promise<Store> {
  const service = await startService('postgres', { needsControl: true })
  onTestFinished(() => service.close())
  const server = service.server('postgres')
  const rows = "SELECT count(*) FROM locks WHERE name <> '' UNION ALL SELECT count(*) FROM locks_waiters"
  return {
    url: server.url,
    entries: () => postgresQuery(server, `SELECT sum(count) FROM (${rows}) AS all_rows`),
  }
}

async function mysql(): Promise<Store> {
  const service = await startService('mariadb', { needsControl: true })
  onTestFinished(() => service.close())
  const server = service.server('mariadb')
  return { url: server.url, entries: () => mariadbQuery(server, 'SELECT COUNT(*) FROM locks') }
}

async function zookeeper(): Promise<Store> {
  const service = await startService('zookeeper', { needsControl: true })
  onTestFinished(() => service.close())
  const server = service.server('zookeeper')
  const entries = async (): Promise<unknown> =>
    /^Node count: \d+$/m.exec(await fourLetterWord(server, 'srvr'))?.[0]
  return { url: `${service.url}?sessionTimeoutMs=4s`, entries }
}

async function redlock(): Promise<Store> {
  const service = await startService('redis-independent', { count: 3, needsControl: true })
  onTestFinished(() => service.close())
  const entries = async (): Promise<unknown> =>
    Promise.all(
      service.servers.map(
        async (server) => new Set([await redisCommand(server, 'KEYS', '*')].flat().map(String)),
      ),
    )
  return { url: `redlock:${service.servers.map(({ url }) => url).join()}`, entries }
}

async function file(): Promise<Store> {
  const folder = await directory()
  const entries = async (): Promise<unknown> =>
    new Set((await readdir(folder)).filter((entry) => !entry.startsWith('.')))
  return { url: `file:${folder}`, entries }
}

/** Somebody else's name: what is kept of it stays. */
async function useBefore(url: string, cwd: string): Promise<void> {
  const args = ['run', 'order:42', '--url', url, '--', process.execPath, '--version']
  expect(await locks(args, { cwd }).ended).toMatchObject({ code: 0 })
}

/** Runs rules where somebody uses a name, and expects the store to be as before. */
async function expectAsBefore(adapter: string, start: () => Promise<Store>, rules?: string): Promise<void> {
  const { url, entries } = await start()
  const cwd = folderOf(adapter)
  if (isSql(adapter)) expect(await locks(['migrate', url], { cwd }).ended).toMatchObject({ code: 0 })
  await useBefore(url, cwd)
  const before = await entries()
  const only = rules === undefined ? [] : ['--only', rules]
  const ttl = adapter === 'zookeeper' ? ['--ttl', '4s'] : []
  const { code, stdout } = await locks(['conformance', url, ...only, '--json', ...ttl], { cwd }).ended
  expect(JSON.parse(stdout)).toMatchObject({ failed: 0, left: [] })
  expect(code).toBe(0)
  expect(await entries()).toEqual(before)
}

describe('locks conformance in somebody else’s store', inTime, () => {
  for (const [adapter, start] of scope() === 'all' ? [...usual, ...further] : usual)
    if (isAdapterSelected(adapter))
      test(`${adapter}: nothing of its names is left, and what was there before stays`, () =>
        expectAsBefore(adapter, start, RULES))

  for (const [adapter, start] of scope() === 'all' ? whole : [])
    if (isAdapterSelected(adapter))
      test(`${adapter}: nor after all rules`, { timeout: scaled(900_000) }, () =>
        expectAsBefore(adapter, start),
      )

  if (isAdapterSelected('redis')) {
    test('interrupted in the middle of a rule, it leaves nothing either', async () => {
      const { url, entries } = await redis()
      await useBefore(url, folderOf('redis'))
      const before = await entries()
      const call = locks(['conformance', url, '--only', 'CRASH,UNIQ', '--jobs', '2'])
      await call.said(/^✓ /m)
      expect(await entries()).not.toEqual(before)
      call.kill('SIGINT')
      expect((await call.ended).code).toBe(130)
      expect(await entries()).toEqual(before)
    })

    test('fences that are shared with Redisson stay, and it says how many and why', async () => {
      const { url, entries } = await redis()
      const { stdout } = await locks(['conformance', `${url}?prefix=`, '--only', 'FENCE-1']).ended
      const left = Number(/^left in the store: (\d+) names? .*shared with Redisson/m.exec(stdout)?.[1])
      expect(await entries()).toHaveProperty('size', left)
    })
  }
})
