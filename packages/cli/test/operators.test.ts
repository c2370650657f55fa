import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { openLocks } from '@locks/core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isAdapterSelected } from '../../../conformance/selection.ts'
import { startService } from '../../../conformance/services/index.ts'
import { scaled } from '../../../conformance/services/timing.ts'
import { directory, inTime, locks, node, ownAdapter, program, store, waitForEnd } from './support/cli.ts'

describe('locks inspect', inTime, () => {
  test('shows a free lock, and the holder of a held one, for people and for programs', async () => {
    const { url, client } = await store()
    expect(await locks(['inspect', 'job', '--url', url]).ended).toMatchObject({
      code: 0,
      stdout: 'lock   job\nstate  free\n',
    })
    const lease = await client.lock('job', { label: 'the\u001B[31m label' }).acquire()
    const { stdout } = await locks(['inspect', 'job'], { env: { LOCKS_URL: url } }).ended
    expect(stdout).toMatch(/^state +held$/m)
    expect(stdout).toMatch(new RegExp(`^fence +${lease.fence}$`, 'm'))
    // What others wrote must not steer the terminal.
    expect(stdout).toMatch(/^label +the\\u001b\[31m label$/m)
    const json: unknown = JSON.parse((await locks(['inspect', 'job', '--json', '--url', url]).ended).stdout)
    expect(json).toMatchObject({ name: 'job', held: true, holder: { fence: String(lease.fence) } })
  })
})

describe('locks prune', inTime, () => {
  test('drops what is kept of idle names, and says how many', async () => {
    const { url, client } = await store()
    const lease = await client.lock('held').acquire()
    const fences: bigint[] = []
    for (const name of ['a', 'b']) await client.with(name, ({ fence }) => void fences.push(fence))
    expect(await locks(['prune', url]).ended).toMatchObject({ code: 0, stdout: '0 names pruned\n' })
    const json = await locks(['prune', '--json', '--idle', '0', url]).ended
    expect(JSON.parse(json.stdout)).toEqual({ pruned: 2 })
    await lease.extend()
    await client.with('a', ({ fence }) => expect(fence).toBeGreaterThan(fences[1] ?? 0n))
    expect(await locks(['prune', '--idle', 'soon', url]).ended).toMatchObject({ code: 2, stdout: '' })
  })
})

describe('locks ls', inTime, () => {
  test('lists what is held, and nothing else', async () => {
    const { url, client } = await store()
    expect(await locks(['ls', '--url', url]).ended).toMatchObject({ code: 0, stdout: '' })
    await client.lock('b', { label: 'second' }).acquire()
    await client.lock('a', { label: 'first' }).acquire()
    await (await client.lock('c').acquire()).release()
    const { stdout } = await locks(['ls', '--url', url]).ended
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => line.split(/\s+/).slice(0, 2)),
    ).toEqual([
      ['NAME', 'HOLDER'],
      ['a', 'first'],
      ['b', 'second'],
    ])
    const json: unknown = JSON.parse((await locks(['ls', '--json', '--url', url]).ended).stdout)
    expect(json).toMatchObject([{ name: 'a' }, { name: 'b' }])
    const one: unknown = JSON.parse(
      (await locks(['ls', '--json', '--limit', '1', '--url', url]).ended).stdout,
    )
    expect(one).toHaveLength(1)
  })
})

describe('locks ls --watch', inTime, () => {
  test('runs until it is interrupted, also without a terminal, and prints every change once', async () => {
    const { url, client } = await store()
    const watching = locks(['ls', '--watch', '--every', '100ms', '--url', url])
    await watching.said(/no lock is held/)
    const lease = await client.lock('job', { label: 'somebody' }).acquire()
    await watching.said(/^job +somebody/m)
    await lease.release()
    await watching.said(/job[^]*no lock is held/)
    watching.kill('SIGINT')
    const { code, stdout, stderr } = await watching.ended
    expect(code).toBe(130)
    expect(stdout.match(/no lock is held/g)).toHaveLength(2)
    expect(stderr).toBe('locks: interrupted by SIGINT\n')
  })

  test('prints lines of JSON, survives an outage, and ends when the reader closes the pipe', async () => {
    const config = await ownAdapter(`list: async () => {
  globalThis.looks = (globalThis.looks ?? 0) + 1
  if (globalThis.looks % 2 === 0) throw new Error('down')
  return [{ name: 'job', held: true, holder: { owner: 'me', fence: BigInt(globalThis.looks) } }]
}`)
    const watching = locks(['ls', '--watch', '--json', '--every', '100ms', '--config', config])
    await watching.said(/"fence":"5"/)
    watching.kill('SIGTERM')
    const { code, stdout, stderr } = await watching.ended
    expect(code).toBe(143)
    const [first] = stdout.split('\n')
    expect(JSON.parse(first ?? '')).toMatchObject([{ name: 'job', holder: { fence: '1' } }])
    expect(stderr).toMatch(/down; still watching/)
    const piped = `'${process.execPath}' '${program}' ls --watch --every 100ms --json --config '${config}' | head -n 1`
    const { code: piping } = await locks([], { via: ['/bin/sh', '-c', piped] }).ended
    expect(piping).toBe(0)
  })

  test('--every without --watch, or out of range, is a usage error', async () => {
    const { url } = await store()
    for (const args of [
      ['--every', '2s'],
      ['--watch', '--every', '1ms'],
      ['--watch', '--every', 'often'],
    ])
      expect((await locks(['ls', ...args, '--url', url]).ended).code).toBe(2)
  })
})

if (isAdapterSelected('redis'))
  test('locks ls --waiters and inspect show the waiters, in order', inTime, async () => {
    const service = await startService('redis')
    onTestFinished(() => service.close())
    const [holder, ...others] = await Promise.all([1, 2, 3].map(() => openLocks(service.url)))
    for (const client of [holder, ...others]) onTestFinished(() => client?.close())
    await holder?.lock('job', { label: 'holds' }).acquire()
    for (const [n, other] of others.entries()) {
      const contended = new Promise((resolve) => other.on('contended', resolve))
      void other
        .lock('job', { label: `waits ${n}` })
        .acquire({ waitMs: '1m' })
        .catch(() => undefined)
      await contended
    }
    const listed = await locks(['ls', '--waiters', '--url', service.url]).ended
    expect(listed.stdout).toMatch(
      /^job +holds .* 2\n +waits: waits 0 \(pid \d+ on .*\)\n +waits: waits 1 \(pid/m,
    )
    const { stdout } = await locks(['inspect', 'job', '--url', service.url]).ended
    expect(stdout).toMatch(/^next +waits 0 \(pid \d+ on .*\)\n +waits 1 \(/m)
    const plain = await locks(['ls', '--json', '--url', service.url]).ended
    expect(plain.stdout).toMatch(/"waiters": 2/)
    expect(plain.stdout).not.toContain('"waiting"')
  })

describe('locks break', inTime, () => {
  test('ends the hold of a live holder, which notices; the next fence is higher', async () => {
    const { url, client } = await store()
    const holder = locks([
      'run',
      'job',
      '--label',
      'alive',
      '--ttl',
      `${scaled(15_000)}ms`,
      '--url',
      url,
      ...node(waitForEnd),
    ])
    await holder.said(/ready/)
    const before = (await client.inspect('job')).holder?.fence ?? 0n
    const broken = await locks(['break', 'job', '--yes', '--url', url]).ended
    expect(broken.code).toBe(0)
    expect(broken.stdout).toMatch(/^broken: job was held by alive \(pid \d+ on .*fence \d+\)$/m)
    expect((await holder.ended).code).toBe(76)
    const next = await client.lock('job').acquire()
    expect(next.fence).toBeGreaterThan(before)
  })

  test('without a terminal and without --yes it refuses, and the holder keeps the lock', async () => {
    const { url, client } = await store()
    const lease = await client.lock('job').acquire()
    const { code, stderr } = await locks(['break', 'job', '--url', url], { input: 'y\n' }).ended
    expect(code).toBe(2)
    expect(stderr).toContain('--yes')
    await lease.extend()
  })

  test('breaks only the hold with the given fence, and nothing if the name is free', async () => {
    const { url, client } = await store()
    const lease = await client.lock('job').acquire()
    const other = await locks(['break', 'job', '-y', '--json', '--fence', '1', '--url', url]).ended
    expect(other.code).toBe(1)
    expect(JSON.parse(other.stdout)).toMatchObject({ name: 'job', broken: false })
    await lease.extend()
    const right = await locks(['break', 'job', '-y', '--json', '--fence', `${lease.fence}`, '--url', url])
      .ended
    expect(right.code).toBe(0)
    expect(JSON.parse(right.stdout)).toMatchObject({ broken: true, holder: { fence: String(lease.fence) } })
    expect(await locks(['break', 'job', '-y', '--url', url]).ended).toMatchObject({
      code: 0,
      stdout: 'nothing to break: job is free\n',
    })
  })
  test('interrupted while its adapter is being loaded, it breaks nothing', async () => {
    const { url, client } = await store()
    const lease = await client.lock('job').acquire()
    const folder = await directory()
    const cas = JSON.stringify(new URL('../../cas/dist/index.js', import.meta.url).href)
    const source = `import { once } from 'node:events'
      console.error('loading')
      await once(process.stdin, 'data')
      export { fromConfig } from ${cas}`
    await writeFile(join(folder, 'slow.mjs'), source)
    await writeFile(join(folder, 'locks.json'), JSON.stringify({ adapter: './slow.mjs', url }))
    const call = locks(['break', 'job', '--yes', '--config', join(folder, 'locks.json')])
    await call.said(/loading/)
    call.kill('SIGINT')
    await call.said(/interrupted by SIGINT/)
    call.type('go on')
    expect(await call.ended).toMatchObject({ code: 130, stdout: '' })
    await lease.extend()
  })

  test('interrupted while it inspects the lock, it breaks nothing', async () => {
    const config = await ownAdapter(`
      inspect: async (name) => {
        globalThis.interrupted ??= new Promise((resolve) => {
          process.once('SIGINT', resolve)
          process.kill(process.pid, 'SIGINT')
        })
        await interrupted
        return { name, held: true, holder: { owner: 'somebody', fence: 1n } }
      },
      break: async () => (console.error('broken'), 'broken')`)
    const { code, stderr } = await locks(['break', 'job', '--yes', '--config', config]).ended
    expect({ code, stderr }).toEqual({ code: 130, stderr: 'locks: interrupted by SIGINT\n' })
  })
})
