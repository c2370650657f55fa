import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isAdapterSelected, scope } from '../../conformance/selection.ts'
import { mariadbQuery, postgresQuery, startService } from '../../conformance/services/index.ts'
import type { Address, ServiceKind } from '../../conformance/services/index.ts'
import { scaled } from '../../conformance/services/timing.ts'
import { startRegistry } from './registry.ts'
import { emptyDirectory, failureOf, holding, typed } from './shell.ts'

// A newcomer types what the errors say, and reads nothing else.

interface Walk {
  readonly adapter: string
  readonly service: ServiceKind
  readonly library: string
  /** Makes a user `alice` with the password `right`. */
  readonly addAlice?: (server: Address) => Promise<void>
  /** A mistake in the URL, and what the error must say. */
  readonly mistakes: readonly (readonly [wrong: (url: string) => string, says: RegExp])[]
  /** Where there are tables: what a missing one is called. */
  readonly missing?: RegExp
}

const unreachable = (url: string): string => url.replace(/:\d+(?=[,/?]|$)/g, ':1')
const elsewhere = (url: string): string => url.replace(/(:\d+)(\/\w*)?$/, '$1/nowhere')
const misspelt = (url: string): string => url.replace(':', 's:')
const as =
  (login: string) =>
  (url: string): string =>
    url.replace(/\/\/(?:[^@/]*@)?/, `//${login}@`)
/** Tables that nobody has made, and that the first acquire does not make either. */
const unmade = (url: string): string => `${url}?table=unmade&migrate=false`

/** The server that tests run on trusts everybody else. */
async function addPostgresAlice(server: Address): Promise<void> {
  await postgresQuery(server, "CREATE ROLE alice LOGIN PASSWORD 'right'")
  const rules = "VALUES ('host all alice all scram-sha-256'), ('host all all all trust')"
  await postgresQuery(server, `COPY (${rules}) TO '${await postgresQuery(server, 'SHOW hba_file')}'`)
  await postgresQuery(server, 'SELECT pg_reload_conf()')
}

async function addMysqlAlice(server: Address): Promise<void> {
  await mariadbQuery(server, "CREATE USER alice@'%' IDENTIFIED BY 'right'")
}

const walks: readonly Walk[] = [
  {
    adapter: 'postgres',
    service: 'postgres',
    library: 'pg',
    addAlice: addPostgresAlice,
    missing: /a table is missing: .*\bunmade_strategy\b/,
    mistakes: [
      [misspelt, /known schemes: .*\bpostgres\b/],
      [unreachable, /ECONNREFUSED 127\.0\.0\.1:1\b/],
      [elsewhere, /the database is missing: .*correct the url, or create the database/],
      [as('alice:wrong'), /the server refuses the password, .*correct user and password in the url/],
      [as('alice'), /the server wants a password and got none, .*give one: postgres:\/\/user:password@host/],
      [as('alice:right'), /the role lacks a privilege, .*grant it SELECT, INSERT, UPDATE and DELETE/],
    ],
  },
  {
    adapter: 'mysql',
    service: 'mariadb',
    library: 'mysql2',
    addAlice: addMysqlAlice,
    missing: /a table is missing: .*\bunmade_strategy\b/,
    mistakes: [
      [misspelt, /known schemes: .*\bmysql\b/],
      [unreachable, /ECONNREFUSED 127\.0\.0\.1:1\b/],
      [elsewhere, /the database is missing: .*correct the url, or create the database/],
      [as('alice:wrong'), /refuses the user or the password, .*correct them in the url/],
      [as('alice'), /refuses the user or the password, .*correct them in the url/],
      [as('alice:right'), /the user may not use this database: .*; grant it the rights, or correct the url/],
    ],
  },
  {
    adapter: 'zookeeper',
    service: 'zookeeper',
    library: 'node-zookeeper-client',
    mistakes: [
      [misspelt, /known schemes: .*\bzookeeper\b/],
      [unreachable, /there is no connection to ZooKeeper at 127\.0\.0\.1:1\b/],
      [elsewhere, /the chroot of the url is missing, .*; create it, or correct the url/],
    ],
  },
  {
    adapter: 'redis',
    service: 'redis',
    library: 'ioredis',
    mistakes: [
      [(url) => url.replace(':', 'x:'), /known schemes: .*\bredis\b/],
      [unreachable, /ECONNREFUSED 127\.0\.0\.1:1\b/],
      [(url) => `${url.replace(/\/$/, '')}/99`, /does not have this database, .*correct its number/],
      [(url) => url.replace('//', '//nobody:wrong@'), /refuses the user or the password, .*correct them/],
    ],
  },
]

if (scope() === 'all')
  for (const { adapter, service: kind, library, addAlice, mistakes, missing } of walks)
    test(
      `a newcomer gets from an empty directory to a lock on ${adapter} by what the errors say`,
      { timeout: scaled(300_000) },
      async ({ skip }) => {
        if (!isAdapterSelected(adapter)) return skip(`LOCKS_ONLY leaves out ${adapter}`)
        await using registry = await startRegistry(['@locks/core', `@locks/${adapter}`, library])
        await using service = await startService(kind)
        for (const server of service.servers) await addAlice?.(server)
        const directory = await emptyDirectory()
        const shell = (command: string): Promise<string> => typed(command, directory, registry.url)
        const run = (url: string, ...words: readonly string[]): Promise<string> =>
          shell(`LOCKS_URL='${url}' node order.mjs ${words.join(' ')}`)
        const failure = (url: string): Promise<string> => failureOf(run(url))

        await writeFile(join(directory, 'order.mjs'), holding)
        await shell('npm install @locks/core')
        const [install = ''] = /npm install @locks\/[^\n,;]*/.exec(await failure(service.url)) ?? []
        expect(install.split(' ')).toEqual(expect.arrayContaining([`@locks/${adapter}`, library]))
        await shell(install)

        // Tables are made by the first acquire.
        expect(await run(service.url, 'twice')).toMatch(/^held under fence [1-9]\d*\ntaken\n$/)
        for (const [wrong, says] of mistakes) expect(await failure(wrong(service.url))).toMatch(says)
        expect(await run(service.url)).toMatch(/^held under fence/)

        if (missing === undefined) return
        const error = await failure(unmade(service.url))
        expect(error).toMatch(missing)
        const [, migrate = ''] = /; run: (npx -p @locks\/cli locks migrate .*)$/m.exec(error) ?? []
        await shell(migrate)
        expect(await run(unmade(service.url))).toMatch(/^held under fence/)
      },
    )
else test('a newcomer, on other servers', ({ skip }) => skip('only npm test -- --all walks these'))
