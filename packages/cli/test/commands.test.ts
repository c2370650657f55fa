import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { directory, inTime, locks, ownAdapter, program, store } from './support/cli.ts'
import type { Call } from './support/cli.ts'

const names = ['run', 'inspect', 'ls', 'break', 'doctor', 'migrate', 'prune', 'bench', 'conformance']

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

  test('a missing or unknown command is a usage error', async () => {
    expect((await locks([]).ended).code).toBe(2)
    const { code, stderr } = await locks(['lock']).ended
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: 'locks: unknown command "lock"\nSee: locks --help\n',
    })
  })

  test('suggests a similar word, and what to write instead', async () => {
    const mistakes = [
      [['rnu'], 'unknown command "rnu"; did you mean run?'],
      [['--hlep'], 'unknown command "--hlep"; did you mean --help?'],
      [['inspect', 'job', '--jsno'], 'unknown option --jsno; did you mean --json?'],
      [['inspect', '-job'], 'unknown option -j; put an argument that begins with a dash after --'],
      [['inspect', 'job', '--url'], '--url needs a value: --url=URL'],
      [['run', 'job', '--wait', '-5s', '--', 'true'], '--wait needs a value: --wait=TIME'],
      [['inspect', 'job', '--json=yes'], '--json takes no value'],
      [['run', 'job', '--ttl', '1ms', '--', 'true'], '--ttl must be from 10ms to 24h, not "1ms"'],
      [['run', 'job', '--wait', '999h', '--', 'true'], '--wait must be from 0ms to 576h, not "999h"'],
      [['bench', 'memory:', '--time', '0'], '--time must be from 1ms to 10m, not "0"'],
    ] as const
    const ended = await Promise.all(
      mistakes.map(([args]) => locks(args, { env: { LOCKS_URL: 'memory:' } }).ended),
    )
    for (const [n, { code, stderr }] of ended.entries())
      expect({ code, said: stderr.split('\n')[0] }).toEqual({ code: 2, said: `locks: ${mistakes[n]?.[1]}` })
  })

  test('locks help COMMAND prints the help of a command', async () => {
    const [asked, other] = await Promise.all([locks(['help', 'run']).ended, locks(['run', '--help']).ended])
    expect(asked).toEqual(other)
    expect(await locks(['help', 'rnu']).ended).toMatchObject({
      code: 2,
      stderr: 'locks: unknown command "rnu"; did you mean run?\nSee: locks --help\n',
    })
    const versions = await Promise.all([locks(['--version']).ended, locks(['-v']).ended])
    for (const { code, stdout } of versions)
      expect([code, stdout]).toEqual([0, expect.stringMatching(/^\d+\./)])
  })

  test('a name may begin with a dash', async () => {
    const { url, client } = await store()
    const lease = await client.lock('-job').acquire()
    expect((await locks(['inspect', '--url', url, '--', '-job']).ended).stdout).toMatch(/^state +held$/m)
    const broken = await locks(['break', '--yes', '--url', url, '--', '-job']).ended
    expect(broken.code).toBe(0)
    expect(broken.stdout).toContain('broken: -job')
    await lease.release().catch(() => undefined)
    const said = 'console.log(process.env.LOCKS_NAME, process.argv.slice(1).join())'
    const command = [process.execPath, '--eval', said, '--', 'a', '--', 'b']
    const run = await locks(['run', '--url', url, '--', '-job', '--', ...command]).ended
    expect(run).toMatchObject({ code: 0, stdout: '-job a,--,b\n' })
    const nameless = await locks(['run', '--url', url, '--', 'true']).ended
    expect(nameless.code).toBe(2)
    expect(nameless.stderr).toContain('NAME is missing')
  })

  test('the error of a failing store comes with advice, and cannot control the terminal', async () => {
    const away = `list: async () => { throw new LockError('LOCK_UNAVAILABLE', 'no\\u001b[2Janswer') }`
    const file = await ownAdapter(away)
    const { code, stderr } = await locks(['ls', '--config', file]).ended
    expect(code).toBe(69)
    expect(stderr).toContain('no\\u001b[2Janswer')
    expect(stderr).toMatch(
      /^Check that the server runs, and the address and credentials\. See: locks doctor$/m,
    )
  })

  test('takes a config file with paths relative to it, and prints errors as JSON with --json', async () => {
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
    expect(broken.stderr).toContain('not valid JSON')
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

  test('shows no password of a URL that is malformed or in the wrong place', async () => {
    const url = 'redis://user:hunter2@127.0.0.1:1'
    const mistakes = [
      [['conformance', 'valkey://user:hunter2@db:6379'], /unknown backend URL \(scheme valkey:\)/],
      [['bench', 'redis:user:hunter2@db'], /^measuring redis:db …\n.*url must be redis:/],
      [['bench', 'redis:/user:hunter2@db'], /^measuring redis:db …\n.*url must be redis:/],
      [['ls', url], /unexpected argument "redis:\/\/127.0.0.1:1"/],
      [['ls', '--limit', url], /--limit must be a whole number/],
      [['bench', '--time', url], /--time must be a duration/],
      [['break', 'job', '--fence', url], /--fence must be a whole number/],
      [['ls', '--config', url], /--config takes a file, not a URL/],
      [[url], /unknown command "redis:\/\/127.0.0.1:1"/],
    ] as const
    const ended = await Promise.all(
      mistakes.map(([args]) => locks(args, { env: { LOCKS_URL: 'memory:' } }).ended),
    )
    for (const [n, { code, stdout, stderr }] of ended.entries()) {
      expect({ args: mistakes[n]?.[0], code }).toEqual({ args: mistakes[n]?.[0], code: 2 })
      expect(stderr).toMatch(mistakes[n]?.[1] ?? '')
      expect(stdout + stderr).not.toMatch(/hunter/)
    }
  })

  test('shows the whole path of a directory, even with an @', async () => {
    const folder = join(await directory(), 'a@b')
    await mkdir(folder)
    const { stderr } = await locks(['bench', `file:${folder}`, '--time', '10ms']).ended
    expect(stderr).toBe(`measuring file:${folder} …\n`)
  })

  test('a reader that closes the pipe early is not an error', async () => {
    const { url, client } = await store()
    await client.lock('job').acquire()
    const sh = `"${process.execPath}" "${program}" ls --url "${url}" | true; "${process.execPath}" "${program}" --help | head -n 1`
    const { code, stderr } = await locks([], { via: ['sh', '-c', sh] }).ended
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })

  test('a slow reader gets everything, and handles that an adapter left open do not delay the exit', async () => {
    const config = await ownAdapter(`list: async () => {
      setInterval(() => {}, 1_000)
      return Array.from({ length: 2_000 }, (_, n) => ({ name: 'job-' + n, held: true }))
    }`)
    const piped = (reader: string): Call =>
      locks([], {
        via: [
          'sh',
          '-c',
          `"$0" "$@" | (${reader})`,
          process.execPath,
          program,
          'ls',
          '--json',
          '--limit',
          '2000',
          '--config',
          config,
        ],
      })
    const [slow, gone] = await Promise.all([piped('sleep 3; cat').ended, piped('true').ended])
    expect(JSON.parse(slow.stdout)).toHaveLength(2_000)
    expect([slow, gone]).toMatchObject([
      { code: 0, stderr: '' },
      { code: 0, stderr: '' },
    ])
  })

  test('can be ended while it waits for a reader that does not read', async () => {
    const config = await ownAdapter(`list: async () => [{ name: 'x'.repeat(1_000_000), held: true }],
      close: async () => { throw new Error('the last thing to be heard') }`)
    const child = spawn(process.execPath, [program, 'ls', '--config', config])
    onTestFinished(() => void child.kill('SIGKILL'))
    const ended = once(child, 'exit')
    for await (const text of child.stderr) if (/the last thing/.test(String(text))) break
    child.kill('SIGTERM')
    expect(await ended).toEqual([143, null])
  })
})

describe('locks bench', inTime, () => {
  test('measures both ways within its time, for people and for programs', async () => {
    const { url } = await store()
    const { code, stdout } = await locks(['bench', url, '--time', '300ms', '--clients', '3']).ended
    expect(code).toBe(0)
    expect(stdout).toMatch(/^acquire \+ release, uncontended +\d+ /m)
    expect(stdout).toMatch(/^hand-off between 3 clients +\d+ /m)
    const json: unknown = JSON.parse(
      (await locks(['bench', 'memory:', '--json', '--time', '50ms']).ended).stdout,
    )
    expect(Object(json)).toHaveProperty('uncontended.p99Ms')
    expect(Object(json)).toHaveProperty('contended.clients', 8)
  })

  test('interrupted twice, it does not wait for a silent store', async () => {
    const silent = `attempt: () => (console.error('asked'), new Promise(() => {})),
      withdraw: () => new Promise(() => {}), close: async () => console.error('closed')`
    const call = locks(['bench', '--config', await ownAdapter(silent)])
    await call.said(/asked/)
    call.kill('SIGINT')
    await call.said(/interrupted by SIGINT/)
    call.kill('SIGINT')
    const { code, stderr } = await call.ended
    expect(code).toBe(130)
    expect(stderr).not.toContain('closed')
  })

  test('interrupted, it releases what it holds and exits with 130', async () => {
    const { url, client } = await store()
    const call = locks(['bench', url, '--time', '60s'])
    await call.said(/measuring/)
    await expect
      .poll(async () => (await client.inspect('/locks-bench-free')).held, {
        timeout: scaled(60_000),
        interval: 1,
      })
      .toBe(true)
    call.kill('SIGINT')
    const { code, stderr } = await call.ended
    expect(code).toBe(130)
    expect(stderr).toContain('interrupted by SIGINT')
    expect(await client.inspect('/locks-bench-free')).toMatchObject({ held: false })
  })
})
