import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { scaled } from '../../conformance/services/timing.ts'
import { start } from '../test-support/program.ts'
import type { Program } from '../test-support/program.ts'

const program = fileURLToPath(new URL('main.mjs', import.meta.url))

function startDemo(...args: string[]): Program {
  return start(program, { args })
}

test('every claim holds, with several real processes', { timeout: scaled(60_000) }, async () => {
  const { exitCode, output } = await startDemo().ended
  const claims = output.split('\n').filter((line) => /^[✔✘]/u.test(line))
  expect(claims).toEqual([
    expect.stringMatching(/^✔ without a lock: \d+ sold of 100, \d+ too many$/),
    expect.stringMatching(/^✔ with the lock: 100 sold of 100, each item once$/),
    expect.stringMatching(/^✔ \d+ holds for \d+ buyers, \d+ hand-offs between processes, \d+\/s$/),
    expect.stringMatching(/^✔ holder killed: the next one held after \d\.\d+ s, ttl 2\.00 s/),
    expect.stringMatching(/^✔ holder paused: taken over after \d\.\d+ s, ttl 2\.00 s/),
    expect.stringMatching(/^✔ woken up, its lease is lost and its caller gets LOCK_LOST$/),
    expect.stringMatching(/^✔ its late write with fence \d+ is refused: the warehouse has seen \d+$/),
  ])
  expect(exitCode).toBe(0)
})

test.each(['Selling with a lock', 'is paused with SIGSTOP'])(
  'interrupted at "%s", no process is left behind',
  async (moment) => {
    const demo = startDemo()
    await demo.said(new RegExp(moment))
    // Twice, as from a terminal and from a script that passes it on.
    demo.kill('SIGINT')
    demo.kill('SIGINT')
    const { exitCode, output } = await demo.ended
    expect(output).toContain('interrupted (SIGINT)')
    expect(exitCode).toBe(130)
  },
)

test('a backend that processes cannot share is refused', async () => {
  const { exitCode, output } = await startDemo('--url', 'memory:').ended
  expect(output).toContain('excludes only tasks of one process')
  expect(exitCode).toBe(2)
})

test('a backend that cannot be reached is named', async () => {
  const config = JSON.stringify({ adapter: '@locks/reference', url: 'tcp://127.0.0.1:1' })
  const { exitCode, output } = await startDemo('--url', config).ended
  expect(output).toContain('cannot reach the backend @locks/reference')
  expect(exitCode).toBe(2)
})
