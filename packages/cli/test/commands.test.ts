import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { directory, inTime, locks, program, store } from './support.ts'

const names = ['run', 'inspect', 'ls', 'break', 'doctor', 'bench', 'conformance']

describe('locks', inTime, () => {
  test('lists its commands and exit codes, and each command explains itself with examples', async () => {
    const { code, stdout } = await locks(['--help']).ended
    expect(code).toBe(0)
    for (const name of names) expect(stdout).toMatch(new RegExp(`^  ${name} `, 'm'))
    expect(stdout).toMatch(/^  75 +not acquired/m)
    const helps = await Promise.all(names.map((name) => locks([name, '--help']).ended))
    for (const [n, help] of helps.entries()) {
      expect(help).toMatchObject({ code: 0, stderr: '' })
      expect(help.stdout).toMatch(new RegExp(`^Usage: locks ${names[n]} `))
      expect(help.stdout).toMatch(new RegExp(`^Examples\\n  locks ${names[n]} `, 'm'))
      expect(help.stdout).toContain('--json')
    }
  })

  test('without a command, or with one that is none, it is a mistake', async () => {
    expect((await locks([]).ended).code).toBe(2)
    const { code, stderr } = await locks(['lock']).ended
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: 'locks: there is no command "lock"\nSee: locks --help\n',
    })
  })

  test('takes a config file, whose paths are meant from there, and tells errors as JSON if asked', async () => {
    const folder = await directory()
    const file = join(folder, 'locks.json')
    await writeFile(
      join(folder, 'own.mjs'),
      'export const fromConfig = () => { throw new Error("this one") }',
    )
    await writeFile(file, JSON.stringify({ adapter: './own.mjs' }))
    const { code, stdout } = await locks(['inspect', 'job', '--json', '--config', file]).ended
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toEqual({ error: { message: 'this one', exitCode: 1 } })
    const stores = { own: { adapter: './own.mjs' }, here: 'memory:' }
    await writeFile(file, JSON.stringify({ stores, default: 'own' }))
    expect((await locks(['inspect', 'job', '--config', file]).ended).stderr).toContain('this one')
    expect((await locks(['inspect', 'job', '--config', file, '--store', 'here']).ended).code).toBe(0)
    expect((await locks(['inspect', 'job', '--config', file, '--store', 'there']).ended).code).toBe(2)
    await writeFile(file, '{ "adapter": "@locks/memory", "hunter2"')
    const broken = await locks(['inspect', 'job', '--config', file]).ended
    expect(broken.code).toBe(2)
    expect(broken.stderr).toContain('it is not JSON')
    expect(broken.stderr).not.toContain('hunter2')
  })

  test('shows no password of a URL', async () => {
    const url = 'redis://user:hunter2@127.0.0.1:1'
    const calls = [
      ['doctor', url],
      ['doctor', '--json', url],
      ['bench', url, '--time', '10ms'],
      ['ls', '--url', url],
    ]
    for (const { code, stdout, stderr } of await Promise.all(calls.map((args) => locks(args).ended))) {
      expect(code).toBe(69)
      expect(stdout + stderr).not.toMatch(/hunter/)
    }
  })

  test('a reader that leaves early is no error', async () => {
    const { url, client } = await store()
    await client.lock('job').acquire()
    const sh = `"${process.execPath}" "${program}" ls --url "${url}" | true; "${process.execPath}" "${program}" --help | head -n 1`
    const { code, stderr } = await locks([], { via: ['sh', '-c', sh] }).ended
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })
})

describe('locks bench', inTime, () => {
  test('measures both ways within its time, for people and for programs', async () => {
    const { url } = await store()
    const { code, stdout } = await locks(['bench', url, '--time', '300ms', '--clients', '3']).ended
    expect(code).toBe(0)
    expect(stdout).toMatch(/^acquire \+ release, nobody else +\d+ /m)
    expect(stdout).toMatch(/^hand-off between 3 clients +\d+ /m)
    const json: unknown = JSON.parse(
      (await locks(['bench', 'memory:', '--json', '--time', '50ms']).ended).stdout,
    )
    expect(Object(json)).toHaveProperty('uncontended.p99Ms')
    expect(Object(json)).toHaveProperty('contended.clients', 8)
  })

  test('interrupted, it gives back what it holds and leaves with 130', async () => {
    const { url, client } = await store()
    const call = locks(['bench', url, '--time', '60s'])
    await call.said(/measuring/)
    await expect
      .poll(async () => (await client.inspect('locks-bench-free')).held, {
        timeout: scaled(60_000),
        interval: 1,
      })
      .toBe(true)
    call.kill('SIGINT')
    const { code, stderr } = await call.ended
    expect(code).toBe(130)
    expect(stderr).toContain('interrupted by SIGINT')
    expect(await client.inspect('locks-bench-free')).toMatchObject({ held: false })
  })
})
