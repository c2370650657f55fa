import { createLocks } from '@locks/core'
import { cas, fileStore } from '@locks/cas'
import { execFile } from 'node:child_process'
import { chmod } from 'node:fs/promises'
import { promisify } from 'node:util'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { temporaryDirectory } from './support/bed.ts'

const NOBODY = 65_534

/** What another user may do to a lock called `order`: each call, and what came of it. */
const program = `
import { createLocks } from '@locks/core'
import { cas, fileStore } from '@locks/cas'
const locks = createLocks(cas(fileStore({ directory: process.argv[1] })), { storeTimeoutMs: 1_000 })
const said = async (call) => call().then((value) => value?.held ?? String(value), ({ code }) => code)
const lock = locks.lock('order')
console.log(JSON.stringify([
  await said(() => lock.inspect()), await said(() => lock.tryAcquire()), await said(() => lock.break()),
  await said(() => locks.lock('new').tryAcquire()),
]))
await locks.close()
`

async function asNobody(directory: string): Promise<unknown> {
  const args = ['--input-type=module', '-e', program, directory]
  const cwd = process.env['LOCKS_TEST_HOME'] ?? process.cwd()
  const { stdout } = await promisify(execFile)(process.execPath, args, { uid: NOBODY, gid: NOBODY, cwd })
  return JSON.parse(stdout)
}

beforeEach(({ skip }) => {
  if (process.getuid?.() !== 0) skip('only root can become another user')
})

test.each([0o755, 0o700])(
  'a user who may not write to a directory of mode %o is refused every call, and changes nothing',
  async (mode) => {
    const directory = await temporaryDirectory()
    await chmod(directory, mode)
    const locks = createLocks(cas(fileStore({ directory })))
    onTestFinished(() => locks.close())
    const lease = await locks.lock('order').acquire()
    const refused = 'LOCK_INVALID_ARGUMENT'
    expect(await asNobody(directory)).toEqual([refused, refused, refused, refused])
    await lease.extend()
    await lease.release()
  },
)
