import { existsSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { directory, inTime, locks, node, ownAdapter, store, waitForEnd } from './support/cli.ts'

async function isFree(client: Awaited<ReturnType<typeof store>>['client'], name: string): Promise<boolean> {
  return !(await client.inspect(name)).held
}

describe('locks run', inTime, () => {
  test('forwards input, output and exit code, and releases the lock', async () => {
    const { url, client } = await store()
    const source =
      'process.stdin.on("data", (text) => console.log(`got ${text}`)).on("end", () => process.exit(7))'
    const { code, stdout, stderr } = await locks(['run', 'job', '--url', url, ...node(source)], {
      input: 'some text',
    }).ended
    expect({ code, stdout, stderr }).toEqual({ code: 7, stdout: 'got some text\n', stderr: '' })
    expect(await isFree(client, 'job')).toBe(true)
  })

  test('leaves its input to the command, even if the command reads late', async () => {
    const { url } = await store()
    const call = locks(['run', 'job', '--url', url, '--', 'sh', '-c', 'echo ready; head -n 1'])
    await call.said(/ready/)
    call.type('late\n')
    expect(await call.ended).toMatchObject({ code: 0, stdout: 'ready\nlate\n' })
  })

  test('passes the name and the rising fence to the command', async () => {
    const { url, client } = await store()
    const source =
      'console.log(`${process.env.LOCKS_NAME} ${process.env.LOCKS_FENCE} ready`); process.stdin.resume()'
    const first = locks(['run', 'job', '--url', url, ...node(source)])
    const [, fence = ''] = await first.said(/^job (\d+) ready$/m)
    const { holder } = await client.inspect('job')
    expect(holder?.fence).toBe(BigInt(fence))
    expect(holder?.metadata?.label).toContain('node')
    first.kill('SIGTERM')
    await first.ended
    const second = locks(['run', 'job', '--url', url, ...node(source)], { input: '' })
    const [, next = ''] = await second.said(/^job (\d+) ready$/m)
    expect(BigInt(next)).toBeGreaterThan(BigInt(fence))
    expect((await second.ended).code).toBe(0)
  })

  test('passes no fence without fencing, even if an outer invocation had one', async () => {
    const unfenced = `capabilities: { ...memory({})(host).capabilities, scope: 'host', fencing: 'none' }`
    const config = await ownAdapter(unfenced)
    const source = 'console.log(process.env.LOCKS_NAME, process.env.LOCKS_FENCE)'
    const outer = { LOCKS_NAME: 'outer', LOCKS_FENCE: '42' }
    const call = locks(['run', 'job', '--config', config, ...node(source)], { env: outer })
    expect(await call.ended).toMatchObject({ code: 0, stdout: 'job undefined\n' })
  })

  test('a second instance does not run its command, and names the holder', async () => {
    const { url } = await store()
    const first = locks(['run', 'job', '--url', url, '--label', 'the first', ...node(waitForEnd)])
    await first.said(/ready/)
    const second = await locks(['run', 'job', '--url', url, ...node('console.log("ran")')]).ended
    expect(second).toMatchObject({ code: 75, stdout: '' })
    expect(second.stderr).toMatch(/job is held by the first \(pid \d+ on .+\)/)
    const quiet = await locks(['run', 'job', '--busy-code', '0', '--json', '--url', url, ...node('')]).ended
    expect(quiet).toMatchObject({ code: 0, stdout: '' })
    expect(JSON.parse(quiet.stderr)).toMatchObject({
      event: 'busy',
      name: 'job',
      holder: { metadata: { label: 'the first' } },
    })
    first.kill('SIGTERM')
    expect((await first.ended).code).toBe(143)
  })

  test('a second instance that may wait runs after the first', async () => {
    const { url } = await store()
    const first = locks(['run', 'job', '--url', url, ...node(waitForEnd)])
    await first.said(/ready/)
    const second = locks(['run', 'job', '--url', url, '--wait', '60s', ...node('console.log("ran")')])
    first.kill('SIGINT')
    expect((await first.ended).code).toBe(130)
    expect(await second.ended).toMatchObject({ code: 0, stdout: 'ran\n' })
  })

  test('with --min-hold a short command runs once per period, in processes that start one by one', async () => {
    const { url } = await store()
    const ran = node('console.log("ran")')
    const call = ['run', 'job', '--url', url, '--busy-code', '0', '--min-hold']
    const first = await locks([...call, '10m', '--label', 'the first', ...ran]).ended
    expect(first).toMatchObject({ code: 0, stdout: 'ran\n', stderr: '' })
    const second = await locks([...call, '10m', ...ran]).ended
    expect(second).toMatchObject({ code: 0, stdout: '' })
    expect(second.stderr).toMatch(/^locks: not run: job is held by the first/)

    const startedAt = performance.now()
    const other = ['run', 'another', ...call.slice(2), '1s', ...ran]
    expect((await locks(other).ended).stdout).toBe('ran\n')
    await expect
      .poll(async () => (await locks(other).ended).stdout, { timeout: scaled(60_000) })
      .toBe('ran\n')
    expect(performance.now() - startedAt).toBeGreaterThan(1_000)
  })

  test('--min-hold takes a duration, and a command that fails counts as a run', async () => {
    const { url } = await store()
    const wrong = await locks(['run', 'job', '--url', url, '--min-hold', 'soon', ...node('')]).ended
    expect(wrong).toMatchObject({ code: 2, stdout: '' })
    const call = ['run', 'job', '--url', url, '--min-hold', '10m']
    expect((await locks([...call, ...node('process.exit(3)')]).ended).code).toBe(3)
    expect((await locks([...call, ...node('')]).ended).code).toBe(75)
  })

  test('with --json, all its own messages are lines of JSON', async () => {
    const calls = [
      ['run', 'job', '--json', '--url', 'redis://127.0.0.1:1', ...node('')],
      ['run', 'job', '--json', '--wiat', '1s', ...node('')],
    ]
    const ended = await Promise.all(calls.map((args) => locks(args).ended))
    expect(ended.map(({ code }) => code)).toEqual([69, 2])
    for (const { code, stderr } of ended)
      expect(JSON.parse(stderr)).toMatchObject({ error: { exitCode: code } })
  })

  test('instances that do not wait run again after one was killed, once its lease is over', async ({
    skip,
  }) => {
    if (process.platform !== 'linux') skip('without a boot id, who tries once sees no record stand still')
    const { url } = await store()
    const call = ['run', 'job', '--url', url, '--ttl', '1s']
    const killed = locks([...call, ...node(`console.log('child', process.pid); ${waitForEnd}`)])
    const [, pid] = await killed.said(/child (\d+)[^]*ready/)
    killed.kill('SIGKILL')
    process.kill(Number(pid), 'SIGKILL')
    await killed.ended
    await expect
      .poll(async () => (await locks([...call, ...node('')]).ended).code, { timeout: scaled(60_000) })
      .toBe(0)
  })

  test('a command that is missing is 127, one that cannot be executed is 126, and the lock is released', async () => {
    const { url, client } = await store()
    const missing = await locks(['run', 'job', '--url', url, '--', 'no-such-command-here']).ended
    expect(missing.code).toBe(127)
    expect(missing.stderr).toContain('no-such-command-here: command not found')
    const file = join(await directory(), 'data')
    await writeFile(file, 'not a program')
    // The last is found out before there is a process.
    for (const command of [file, join(file, 'in-a-file')]) {
      const { code, stderr } = await locks(['run', 'job', '--url', url, '--', command]).ended
      expect(code).toBe(126)
      expect(stderr).toMatch(
        new RegExp(`^locks: ${command}: cannot be executed \\((EACCES|ENOTDIR)\\)$`, 'm'),
      )
    }
    expect(await isFree(client, 'job')).toBe(true)
  })

  test.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const)(
    '%s is passed on, and the command decides how to leave',
    async (signal) => {
      const { url, client } = await store()
      const source = `process.on(${JSON.stringify(signal)}, () => { console.log("got it"); process.exit(9) });${waitForEnd}`
      const call = locks(['run', 'job', '--url', url, ...node(source)])
      await call.said(/ready/)
      call.kill(signal)
      expect(await call.ended).toMatchObject({ code: 9, stdout: 'ready\ngot it\n' })
      expect(await isFree(client, 'job')).toBe(true)
    },
  )

  test('a signal reaches the child processes of the command, and its death is 128 + n', async () => {
    const { url } = await store()
    const source = `require("node:child_process").spawn(process.execPath, ["--eval", ${JSON.stringify(waitForEnd)}], { stdio: "inherit" });setInterval(() => {}, 1_000)`
    const call = locks(['run', 'job', '--url', url, ...node(source)])
    await call.said(/ready/)
    call.kill('SIGTERM')
    expect((await call.ended).code).toBe(143)
  })

  test('interrupted while it waits for the lock, it exits with 130 and leaves nothing behind', async () => {
    const { url, client } = await store()
    const lease = await client.lock('job').acquire()
    const call = locks(['run', 'job', '--url', url, '--wait', '60s', '--json', ...node('')])
    await call.said(/"waiting"/)
    call.kill('SIGINT')
    expect(await call.ended).toMatchObject({ code: 130, stdout: '' })
    await lease.release()
    expect(await isFree(client, 'job')).toBe(true)
  })

  test('stopped, it stops the command too, and both continue together', async ({ skip }) => {
    if (!existsSync('/proc/self/stat')) skip('there is no /proc to see it by')
    const { url } = await store()
    const source = `${waitForEnd}; process.on("SIGUSR2", () => console.log("awake")); console.log("pid " + process.pid)`
    const call = locks(['run', 'job', '--url', url, ...node(source)])
    const [, child = ''] = await call.said(/pid (\d+)/)
    call.kill('SIGTSTP')
    const isStopped = (pid: number): boolean => / \(.*\) T /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    await eventually('both have stopped', () => isStopped(call.pid) && isStopped(Number(child)))
    call.kill('SIGCONT')
    process.kill(Number(child), 'SIGUSR2')
    await call.said(/awake/)
    call.kill('SIGTERM')
    expect((await call.ended).code).toBe(143)
  })

  test('a backend that cannot be closed does not change the exit code', async () => {
    const stuck = `capabilities: { ...memory({})(host).capabilities, scope: 'host' },
      close: async () => { throw new Error('cannot close') }`
    const config = await ownAdapter(stuck)
    const { code, stderr } = await locks(['run', 'job', '--config', config, ...node('process.exit(7)')]).ended
    expect(code).toBe(7)
    expect(stderr).toMatch(/^locks: not closed: .*cannot close\n$/)
    const json = await locks(['run', 'job', '--json', '--config', config, ...node('')]).ended
    expect(json).toMatchObject({ code: 0 })
    const events = json.stderr.trim().split('\n')
    expect(events.map((line): unknown => JSON.parse(line))).toMatchObject([
      { event: 'acquired' },
      { event: 'not-closed' },
    ])
  })

  test('an unreachable store is 69, and an invalid command line is 2', async () => {
    const gone = await locks(['run', 'job', '--url', 'redis://127.0.0.1:1', ...node('')]).ended
    expect(gone.code).toBe(69)
    const { url } = await store()
    const mistakes = [
      [['run', 'job', '--url', url], /no command/],
      [['run', '--url', url, '--', 'true'], /NAME is missing/],
      [['run', 'job', '--url', url, '--wait', 'soon', '--', 'true'], /--wait must be a duration/],
      [['run', 'job', '--', 'true'], /no backend/],
      [['run', 'job', '--nonsense', '--', 'true'], /--nonsense/],
      [['run', 'job', '--url', 'memory:', '--', 'true'], /run needs a store that processes share/],
      [['run', 'job', '--url', 'pigeon://loft', '--', 'true'], /unknown backend URL/],
    ] as const
    const ended = await Promise.all(mistakes.map(([args]) => locks(args).ended))
    for (const [n, { code, stderr }] of ended.entries()) {
      const [args, message] = mistakes[n] ?? []
      expect({ args, code }).toEqual({ args, code: 2 })
      expect(stderr).toMatch(message ?? '')
    }
  })
})
