import { createLocks, isLockError, openLocks } from '@locks/core'
import { cas, fileStore } from '@locks/cas'
import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { openClient } from '../../../conformance/test-support/clients.ts'
import { HandClock } from '../../../conformance/test-support/hand-clock.ts'
import { untrustedFileSystem } from '../src/stores/file-directory.ts'
import { folderOf } from '../src/stores/file-paths.ts'
import { bare, isBusy, temporaryDirectory } from './support/bed.ts'

const run = promisify(execFile)

describe('the directory', () => {
  test('holds one small file for a name, however often its lock was taken', async () => {
    const directory = await temporaryDirectory()
    const locks = openClient(cas(fileStore({ directory })))
    for (let n = 0; n < 300; n += 1) await locks.with('order', () => undefined)
    await locks.close()
    const files = await readdir(directory, { recursive: true })
    expect(files.toSorted()).toEqual([
      '.floor',
      '.floor/0',
      folderOf('order'),
      expect.stringMatching(/\/\d+$/),
    ])
  })

  test('is cleaned of thousands of old versions by the next put', async () => {
    const directory = await temporaryDirectory()
    const store = fileStore({ directory })()
    const made = await store.put('order', 'x', undefined, true)
    if (!('version' in made)) throw new Error('it was there')
    const folder = join(directory, folderOf('order'))
    const id = '00000000-0000-4000-8000-000000000000'
    for (let n = 1n; n <= 1_500n; n += 1n) {
      const [state, version] = n % 2n === 0n ? ['was', made.version - n] : ['next', made.version - n]
      await writeFile(join(folder, `${version}.${id}.${state}`), 'old')
    }
    expect(await store.get('order')).toEqual({ value: 'x', version: made.version })
    expect(await store.put('order', 'y', made.version, true)).toEqual({ version: made.version + 1n })
    expect(await readdir(folder)).toEqual([String(made.version + 1n)])
  })

  test('keeps what it does not know', async () => {
    const directory = await temporaryDirectory()
    const store = fileStore({ directory })()
    await store.put('order', 'x', undefined, true)
    await writeFile(join(directory, folderOf('order'), 'README'), 'not ours')
    const current = await store.get('order')
    await store.put('order', 'y', current?.version, true)
    expect(await readFile(join(directory, folderOf('order'), 'README'), 'utf8')).toBe('not ours')
    expect((await store.get('order'))?.value).toBe('y')
  })

  test('a writer that slept through many versions, all cleaned up, is refused', async () => {
    const directory = await temporaryDirectory()
    const store = fileStore({ directory })()
    const made = await store.put('order', '0', undefined, true)
    if (!('version' in made)) throw new Error('it was there')
    for (let n = 0n; n < 5n; n += 1n) await store.put('order', `${n + 1n}`, made.version + n, false)
    for (let n = 0n; n < 5n; n += 1n)
      expect(await store.put('order', 'stale', made.version + n, true)).toMatchObject({
        conflict: true,
        current: { value: '5' },
      })
    expect(await readdir(join(directory, folderOf('order')))).toHaveLength(1)
  })
})

describe('names', () => {
  test.each([
    '../../etc/passwd',
    '/etc/passwd',
    '..',
    '.',
    'a/../b',
    'CON',
    '.floor',
    'a\u0000b',
    '💥',
    'x'.repeat(1024),
  ])('never become paths: %j', async (name) => {
    const directory = await temporaryDirectory()
    const store = fileStore({ directory })()
    await store.put(name, 'x', undefined, true)
    expect((await store.get(name))?.value).toBe('x')
    const [folder = '', ...others] = (await readdir(directory)).filter((entry) => entry !== '.floor')
    expect(others).toEqual([])
    expect(folder).toMatch(/^[\w-]{0,40}-[0-9a-f]{32}$/)
  })
})

describe('a torn file', () => {
  test('is taken for a holder that is watched for a minute, not for a free lock', async () => {
    const directory = await temporaryDirectory()
    const clock = new HandClock()
    const client = bare(fileStore({ directory }), clock)
    const grant = await client.take(client.request())
    const folder = join(directory, folderOf('order'))
    await writeFile(join(folder, String(grant.fence)), '{"name":"ord')
    const other = bare(fileStore({ directory }), clock)
    const wanted = other.request()
    expect(await isBusy(other, wanted)).toBe(true)
    clock.move(60_000)
    expect((await other.take(wanted)).fence).toBeGreaterThan(grant.fence)
  })
})

describe('a directory that cannot serve is refused at once, saying why', () => {
  const outcome = async (directory: string): Promise<string> => {
    const locks = await openLocks({ adapter: '@locks/cas', store: 'file', directory })
    try {
      await locks.lock('order').acquire()
      return 'granted'
    } catch (error) {
      return isLockError(error) ? `${error.code} ${error.message}` : String(error)
    } finally {
      await locks.close()
    }
  }

  test('missing', async () => {
    const directory = join(await temporaryDirectory(), 'missing')
    expect(await outcome(directory)).toMatch(/^LOCK_INVALID_ARGUMENT .*does not exist; create it first/)
  })

  test('not a directory', async () => {
    const file = join(await temporaryDirectory(), 'file')
    await writeFile(file, '')
    expect(await outcome(file)).toMatch(/^LOCK_INVALID_ARGUMENT .*is not a directory.*; remove the file/)
    expect(await outcome(join(file, 'locks'))).toMatch(/^LOCK_INVALID_ARGUMENT .*is below a file.*; remove/)
  })

  test('not writable', async () => {
    const directory = join(await temporaryDirectory(), 'read-only')
    await mkdir(directory, { mode: 0o555 })
    // Root may write everywhere, so that a process without its rights has to try.
    if (process.getuid?.() !== 0) {
      expect(await outcome(directory)).toMatch(/^LOCK_INVALID_ARGUMENT .*is not writable/)
      return
    }
    const script = `
      const { fileStore } = await import('@locks/cas')
      process.setgid?.(65534); process.setuid?.(65534)
      const store = fileStore({ directory: process.argv[1] })()
      await store.put('order', 'x', undefined, true).catch((e) => console.log(e.code, e.message))`
    await run('chmod', ['755', join(directory, '..')])
    const cwd = join(import.meta.dirname, '..')
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script, directory], { cwd })
    expect(stdout).toMatch(/^LOCK_INVALID_ARGUMENT .* is not writable by this process \(uid 65534\)/)
  })

  test.skipIf(process.platform !== 'linux')('one in which nothing can be made, by anybody', async () => {
    expect(await outcome('/proc/sys')).toMatch(/^LOCK_\w+ .*"\/proc\/sys"/)
  })

  test('network file systems are known by their number', () => {
    expect([0x6969, 0xff534d42, 0xff534d42 | 0, 0xfe534d42, 0x65735546].map(untrustedFileSystem)).toEqual([
      'NFS',
      'CIFS',
      'CIFS',
      'SMB2',
      'FUSE',
    ])
    for (const local of [0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630])
      expect(untrustedFileSystem(local)).toBeUndefined()
  })

  test('and one that is put right serves without a restart', async () => {
    const directory = join(await temporaryDirectory(), 'late')
    const store = fileStore({ directory })()
    await expect(store.get('order')).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
    await mkdir(directory)
    expect(await store.get('order')).toBeUndefined()
  })

  test('one that vanishes while it is used is an outage, not a free lock', async () => {
    const directory = await temporaryDirectory()
    const inner = join(directory, 'inner')
    await mkdir(inner)
    const locks = createLocks(cas(fileStore({ directory: inner })))
    const lease = await locks.lock('order').acquire()
    await run('rm', ['-rf', inner])
    await writeFile(inner, 'in its place')
    await expect(locks.lock('other').tryAcquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    await expect(lease.extend()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    await locks.close()
  })
})
