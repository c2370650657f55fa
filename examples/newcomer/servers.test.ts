import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isAdapterSelected, scope } from '../../conformance/selection.ts'
import { startService } from '../../conformance/services/index.ts'
import type { ServiceKind } from '../../conformance/services/index.ts'
import { scaled } from '../../conformance/services/timing.ts'
import { startRegistry } from './registry.ts'
import { emptyDirectory, FailedCommand, typed } from './shell.ts'

// A newcomer types what the errors say, and reads nothing else.

interface Walk {
  readonly adapter: string
  readonly service: ServiceKind
  readonly library: string
  /** A mistake in the URL, and what the error must say. */
  readonly mistakes: readonly (readonly [wrong: (url: string) => string, says: RegExp])[]
}

const unreachable = (url: string): string => url.replace(/:\d+(?=[,/?]|$)/g, ':1')
const elsewhere = (url: string): string => url.replace(/(:\d+)(\/\w*)?$/, '$1/nowhere')
const misspelt = (url: string): string => url.replace(':', 's:')

const walks: readonly Walk[] = [
  {
    adapter: 'postgres',
    service: 'postgres',
    library: 'pg',
    mistakes: [
      [misspelt, /known schemes: .*\bpostgres\b/],
      [unreachable, /ECONNREFUSED 127\.0\.0\.1:1\b/],
      [elsewhere, /the database is missing: .*correct the url, or create the database/],
    ],
  },
  {
    adapter: 'mysql',
    service: 'mariadb',
    library: 'mysql2',
    mistakes: [
      [misspelt, /known schemes: .*\bmysql\b/],
      [unreachable, /ECONNREFUSED 127\.0\.0\.1:1\b/],
      [elsewhere, /the database is missing/],
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

/** Holds a lock while a second process of it tries to get the same one. */
const program = `import { openLocks } from '@locks/core'
import { spawn } from 'node:child_process'
import { once } from 'node:events'

const locks = await openLocks(process.env.LOCKS_URL)
const lease = await locks.lock('order:42').tryAcquire()
console.log(lease === null ? 'taken' : 'held under fence ' + lease.fence)
if (lease !== null && process.argv[2] === 'twice')
  await once(spawn(process.execPath, ['order.mjs'], { stdio: 'inherit' }), 'close')
await lease?.release()
await locks.close()
`

if (scope() === 'all')
  for (const { adapter, service: kind, library, mistakes } of walks)
    test(
      `a newcomer gets from an empty directory to a lock on ${adapter} by what the errors say`,
      { timeout: scaled(300_000) },
      async ({ skip }) => {
        if (!isAdapterSelected(adapter)) return skip(`LOCKS_ONLY leaves out ${adapter}`)
        await using registry = await startRegistry(['@locks/core', `@locks/${adapter}`, library])
        await using service = await startService(kind)
        const directory = await emptyDirectory()
        const shell = (command: string): Promise<string> => typed(command, directory, registry.url)
        const run = (url: string, ...words: readonly string[]): Promise<string> =>
          shell(`LOCKS_URL='${url}' node order.mjs ${words.join(' ')}`)
        const failure = (url: string): Promise<string> =>
          run(url).then(
            (output) => expect.fail(`expected an error, got ${output}`),
            (error: unknown) => {
              if (error instanceof FailedCommand) return error.output
              throw error
            },
          )

        await writeFile(join(directory, 'order.mjs'), program)
        await shell('npm install @locks/core')
        const [install = ''] = /npm install @locks\/[^\n,;]*/.exec(await failure(service.url)) ?? []
        expect(install.split(' ')).toEqual(expect.arrayContaining([`@locks/${adapter}`, library]))
        await shell(install)

        // Tables are made by the first acquire.
        expect(await run(service.url, 'twice')).toMatch(/^held under fence [1-9]\d*\ntaken\n$/)
        for (const [wrong, says] of mistakes) expect(await failure(wrong(service.url))).toMatch(says)
        expect(await run(service.url)).toMatch(/^held under fence/)
      },
    )
else test('a newcomer, on other servers', ({ skip }) => skip('only npm test -- --all walks these'))
