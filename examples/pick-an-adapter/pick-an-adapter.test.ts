import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isSelected } from '../../conformance/selection.ts'
import { startService } from '../../conformance/services/index.ts'
import { scaled } from '../../conformance/services/timing.ts'
import { start, workplace } from '../test-support/program.ts'

const timeout = scaled(60_000)
const program = join(import.meta.dirname, 'main.mjs')

test('in one process, nothing is needed', { timeout }, async () => {
  const { exitCode, output } = await start(program).ended
  expect(output).toBe('scope process, fences durable, waiters by handoff\n0 left\n')
  expect(exitCode).toBe(0)
})

test('on one host, a directory', { timeout }, async () => {
  const { output } = await start(program, { env: { LOCK_DIRECTORY: await workplace() } }).ended
  expect(output).toBe('scope host, fences durable, waiters by notify\n0 left\n')
})

if (isSelected('redis'))
  test('on many hosts, a server', { timeout }, async () => {
    await using service = await startService('redis')
    const { output } = await start(program, { env: { REDIS_URL: service.url } }).ended
    expect(output).toBe('scope cluster, fences clock-assisted, waiters by handoff\n0 left\n')
  })
