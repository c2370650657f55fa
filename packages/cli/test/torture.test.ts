import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { directory, inTime, locks, ownAdapter, store } from './support/cli.ts'

const short = ['--for', '5s', '--processes', '2', '--tasks', '2', '--names', '2', '--ttl', '500ms']

/** Every process has a store of its own, and claims that they share it. */
const forProcessesAlone = `capabilities: { ...memory({})(host).capabilities, scope: 'host' }`

describe('torture', inTime, () => {
  test('finds no violation on a correct store, and says which faults do not apply', async () => {
    const { url } = await store()
    const page = join(await directory(), 'report.html')
    const { code, stdout, stderr } = await locks(['torture', url, ...short, '--html', page]).ended
    expect(stdout).toMatch(/grants +\d+/)
    expect(stdout).toContain('no violation')
    expect(stderr).toContain('not applied: cut, delay, swallow, refuse; a directory has no connections')
    expect(await readFile(page, 'utf8')).toContain('The run by worker')
    expect(code).toBe(0)
  })

  test('finds two holders, and shows the seed and the events', async () => {
    const config = await ownAdapter(forProcessesAlone)
    const { code, stdout } = await locks(['torture', '--config', config, ...short, '--seed', '5', '--yes'])
      .ended
    expect(stdout).toMatch(/two holders: w\d+\.\d+\/t\d+ and w\d+\.\d+\/t\d+ both held torture:\w+:\d/)
    expect(stdout).toMatch(/"type":"granted"/)
    expect(stdout).toMatch(/\d+ violations, seed 5/)
    expect(code).toBe(1)
  })

  test('with --json it prints one document', async () => {
    const { url } = await store()
    const { stdout } = await locks(['torture', url, ...short, '--faults', 'kill', '--seed', '1', '--json'])
      .ended
    expect(JSON.parse(stdout)).toMatchObject({ seed: 1, violations: [], interrupted: false })
  })

  test('Ctrl-C ends it with a report and 130, and leaves no lock behind', async () => {
    const { url, client } = await store()
    const call = locks(['torture', url, ...short.slice(2), '--for', '10m'])
    await call.said(/[1-9]\d* grants/)
    call.kill('SIGINT')
    const { code, stdout } = await call.ended
    expect(stdout).toContain('no violation before the interruption')
    expect(code).toBe(130)
    expect(await client.list()).toEqual([])
  })

  test('runs the command of --on-fault, with its count in the environment', async () => {
    const { url } = await store()
    const file = join(await directory(), 'faults')
    const command = `echo fault $LOCKS_FAULT >> '${file}'`
    const args = ['--for', '10m', ...short.slice(2), '--faults', 'block', '--on-fault', command]
    const call = locks(['torture', url, ...args])
    const said = () => readFile(file, 'utf8').catch(() => '')
    await expect.poll(said, { timeout: inTime.timeout, interval: 100 }).toMatch(/^fault 1\n/)
    call.kill('SIGINT')
    const { code, stdout } = await call.ended
    expect(stdout).toMatch(/faults .*\d on-fault/)
    expect(code).toBe(130)
  })

  test('it does not start on another machine without confirmation', async () => {
    const { code, stderr } = await locks(['torture', 'redis://user:secret@redis.example.com', ...short]).ended
    expect(stderr).toMatch(/WARNING: this store is not on this machine: redis\.example\.com/)
    expect(stderr).toContain('pass --yes')
    expect(stderr).not.toContain('secret')
    expect(code).toBe(2)
  })

  test('an unknown fault, or a store for one process, is a usage error', async () => {
    const { url } = await store()
    const wrong = await locks(['torture', url, '--faults', 'kill,explode']).ended
    expect(wrong.stderr).toContain('unknown fault "explode"')
    expect(wrong.code).toBe(2)
    const alone = await locks(['torture', 'memory:', ...short]).ended
    expect(alone.stderr).toContain('only tasks of one process')
    expect(alone.code).toBe(2)
  })
})
