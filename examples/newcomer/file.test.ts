import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isAdapterSelected, scope } from '../../conformance/selection.ts'
import { scaled } from '../../conformance/services/timing.ts'
import { startRegistry } from './registry.ts'
import { emptyDirectory, failureOf, holding, typed } from './shell.ts'

// As on the servers: a newcomer types what the errors say, and reads nothing else.

const title = 'a newcomer gets from an empty directory to a lock on a directory by what the errors say'
const NOBODY = 65_534

const mistakes: readonly (readonly [url: string, says: RegExp])[] = [
  ['files:locks', /known schemes: .*\bfile\b/],
  ['file:', /url must name a directory: file:\/path\/to\/directory/],
  ['file:locks?prefix=a', /takes no options after \? or #/],
  ['file:order.mjs', /order\.mjs" is not a directory, so no lock .*; remove the file, or name a directory/],
  ['file:order.mjs/locks', /order\.mjs\/locks" is below a file, so no lock .*or name another directory/],
]

if (scope() === 'all')
  test(title, { timeout: scaled(300_000) }, async ({ skip }) => {
    if (!isAdapterSelected('cas')) return skip('LOCKS_ONLY leaves out cas')
    await using registry = await startRegistry(['@locks/core', '@locks/cas'])
    const directory = await emptyDirectory()
    const shell = (command: string): Promise<string> => typed(command, directory, registry.url)
    const program = 'node order.mjs'
    const run = (url: string, command = program): Promise<string> => shell(`LOCKS_URL='${url}' ${command}`)
    const failure = (url: string, command?: string): Promise<string> => failureOf(run(url, command))

    await writeFile(join(directory, 'order.mjs'), holding)
    await shell('npm install @locks/core')
    const [install = ''] = /npm install @locks\/[^\n,;]*/.exec(await failure('file:locks')) ?? []
    await shell(install)

    const [, missing = ''] =
      /directory "(.*)" does not exist; create it/.exec(await failure('file:locks')) ?? []
    await mkdir(missing)
    expect(await run('file:locks', `${program} twice`)).toMatch(/^held under fence [1-9]\d*\ntaken\n$/)
    for (const [url, says] of mistakes) expect(await failure(url)).toMatch(says)

    // Made by root, as by an installer; the program runs as another user.
    const isRoot = process.getuid?.() === 0
    const asUser = isRoot ? `setpriv --reuid=${NOBODY} --regid=${NOBODY} --clear-groups ${program}` : program
    await mkdir(join(directory, 'theirs'), { mode: 0o555 })
    if (isRoot) await chmod(directory, 0o755)
    expect(await failure('file:theirs', asUser)).toMatch(
      /theirs" is not writable by this process \(uid \d+\), so no lock .*; let this user read and write in it/,
    )
    await chmod(join(directory, 'theirs'), 0o777)
    expect(await run('file:theirs', asUser)).toMatch(/^held under fence/)
  })
else test(title, ({ skip }) => skip('only npm test -- --all walks it'))
