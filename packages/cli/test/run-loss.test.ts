import { existsSync } from 'node:fs'
import { openLocks } from '@locks/core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isAdapterSelected } from '../../../conformance/selection.ts'
import { startService } from '../../../conformance/services/index.ts'
import { scaled } from '../../../conformance/services/timing.ts'
import { inTime, locks, node, program, waitForEnd } from './support/cli.ts'

const ttl = `${scaled(12_000)}ms`
const stubborn = `process.on("SIGTERM", () => console.log("no")); ${waitForEnd}`

/** A command with a child of its own that must go with it. */
function family(source: string): readonly string[] {
  const child = JSON.stringify(['--eval', source])
  return node(
    `require("node:child_process").spawn(process.execPath, ${child}, { stdio: "inherit" }); ${source.replace('"ready"', '"started"')}`,
  )
}

if (isAdapterSelected('redis'))
  describe('locks run, when the lock is lost', inTime, () => {
    test('by a break, ends the command and its child processes, and exits with 76', async () => {
      await using redis = await startService('redis')
      const operator = await openLocks(redis.url)
      onTestFinished(() => operator.close())
      const call = locks(['run', 'job', '--url', redis.url, '--ttl', ttl, ...family(waitForEnd)])
      await Promise.all([call.said(/ready/), call.said(/started/)])
      const held = await operator.inspect('job')
      await operator.lock('job').break()
      // Only when the last of them is gone the output ends.
      const { code, stderr } = await call.ended
      expect(code).toBe(76)
      expect(stderr).toMatch(/lost/)
      const next = await operator.lock('job').acquire()
      expect(next.fence).toBeGreaterThan(held.holder?.fence ?? 0n)
      await next.release()
    })

    test('kills a command that ignores SIGTERM', async () => {
      await using redis = await startService('redis')
      const operator = await openLocks(redis.url)
      onTestFinished(() => operator.close())
      const call = locks([
        'run',
        'job',
        '--url',
        redis.url,
        '--ttl',
        ttl,
        '--grace',
        `${scaled(2_000)}ms`,
        ...family(stubborn),
      ])
      await Promise.all([call.said(/ready/), call.said(/started/)])
      await operator.lock('job').break()
      const { code, stdout } = await call.ended
      expect(code).toBe(76)
      expect(stdout).toContain('no')
    })

    test.for([
      { how: 'in words', json: [] },
      { how: 'as JSON', json: ['--json'] },
    ])('ends the command although nothing can be said on stderr, $how', async ({ json }, { skip }) => {
      if (!existsSync('/dev/full')) skip('there is no /dev/full to write to')
      await using redis = await startService('redis')
      const operator = await openLocks(redis.url)
      onTestFinished(() => operator.close())
      const args = ['run', 'job', ...json, '--url', redis.url, '--ttl', ttl, '--grace', '100ms']
      const call = locks([], {
        via: [
          'sh',
          '-c',
          'exec "$0" "$@" 2>/dev/full',
          process.execPath,
          program,
          ...args,
          ...node(stubborn),
        ],
      })
      await call.said(/ready/)
      await operator.lock('job').break()
      // The output ends with the command.
      expect((await call.ended).code).toBe(76)
    })

    test('by a silent store, ends the command before another client can hold the lock', async () => {
      await using redis = await startService('redis', { needsControl: true })
      const call = locks([
        'run',
        'job',
        '--json',
        '--url',
        redis.url,
        '--ttl',
        `${scaled(6_000)}ms`,
        '--grace',
        `${scaled(2_000)}ms`,
        ...node(stubborn),
      ])
      await call.said(/ready/)
      await redis.server('redis').pause()
      const { code, stderr } = await call.ended
      expect(code).toBe(76)
      const events = stderr
        .trim()
        .split('\n')
        .map((line): unknown => JSON.parse(line))
      // Ahead of the deadline: at that itself, the reason would be the loss.
      expect(events).toContainEqual({
        event: 'stopping',
        name: 'job',
        reason: 'the lock could not be renewed',
      })
      expect(events).toContainEqual({ event: 'lost', name: 'job', commandCode: 137 })
    })
  })
