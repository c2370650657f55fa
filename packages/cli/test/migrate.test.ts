import { fileURLToPath } from 'node:url'
import { openLocks } from '@locks/core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isAdapterSelected } from '../../../conformance/selection.ts'
import { startService } from '../../../conformance/services/index.ts'
import { inTime, locks, store } from './support/cli.ts'

/** An adapter is looked up from where the command runs. */
const mysql = fileURLToPath(new URL('../../mysql', import.meta.url))

if (isAdapterSelected('postgres'))
  describe('locks migrate, on PostgreSQL', inTime, () => {
    test.each(['unique-key', 'row'])(
      'is the line that the error of a missing table names (%s)',
      async (strategy) => {
        const server = await startService('postgres')
        onTestFinished(() => server.close())
        const address = new URL(server.url)
        address.searchParams.set('strategy', strategy)
        address.searchParams.set('table', 'elsewhere')
        address.searchParams.set('migrate', 'false')
        const client = await openLocks(address.href)
        onTestFinished(() => client.close())
        const error: unknown = await client
          .lock('a')
          .tryAcquire()
          .catch((reason: unknown) => reason)
        const [, url = ''] =
          /run: npx -p @locks\/cli locks migrate '(postgres:[^']*)'/.exec(String(error)) ?? []
        expect(url).toContain('table=elsewhere')
        expect(new URL(url).password).toBe('')
        expect(String(error)).not.toContain(`:${decodeURIComponent(address.password)}@`)
        const env = { PGPASSWORD: decodeURIComponent(address.password) }
        for (const args of [[url], ['--json', '--url', url]]) {
          const { code, stdout, stderr } = await locks(['migrate', ...args], { env }).ended
          expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
          expect(stdout).toMatch(/@locks\/postgres: the tables are ready|"migrated": true/)
        }
        await client.with('a', () => undefined)
      },
    )
  })

if (isAdapterSelected('mysql'))
  test(
    'locks migrate creates the tables of MySQL, and the error for missing tables shows the command',
    inTime,
    async () => {
      const server = await startService('mariadb')
      onTestFinished(() => server.close())
      const before = await locks(['ls', '--url', server.url], { cwd: mysql }).ended
      expect(before.code).toBe(2)
      expect(before.stderr).toMatch(/run: npx -p @locks\/cli locks migrate mysql:\/\/\S+/)
      const { code, stdout } = await locks(['migrate'], { cwd: mysql, env: { LOCKS_URL: server.url } }).ended
      expect({ code, stdout }).toEqual({ code: 0, stdout: '@locks/mysql: the tables are ready\n' })
      expect((await locks(['ls', '--url', server.url], { cwd: mysql }).ended).code).toBe(0)
    },
  )

describe('locks migrate', inTime, () => {
  test('does nothing for a store without tables, and says so', async () => {
    const { url } = await store()
    expect(await locks(['migrate', url]).ended).toMatchObject({
      code: 0,
      stdout: '@locks/cas needs no tables\n',
    })
  })

  test('exits with 2 for invalid arguments and 69 for an unreachable server, without the password', async () => {
    const secret = 'postgres://app:hunter2@127.0.0.1:1/app'
    const calls: readonly (readonly [number, readonly string[]])[] = [
      [2, []],
      [2, [secret, 'more']],
      [2, [`${secret}?strategy=none`]],
      [2, ['nowhere:x']],
      [69, [secret]],
    ]
    for (const [expected, args] of calls) {
      const { code, stdout, stderr } = await locks(['migrate', ...args]).ended
      expect(code, stderr).toBe(expected)
      expect(stdout + stderr).not.toContain('hunter2')
    }
  })
})
