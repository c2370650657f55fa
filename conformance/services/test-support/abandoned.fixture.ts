import { writeFileSync } from 'node:fs'
import { test } from 'vitest'
import { startService } from '../start-service.ts'
import { tracesOf } from './reachability.ts'

// Run by a vitest of its own, which the test in guardian.test.ts then ends in some rude way.
test('starts a service and never closes it', { timeout: 60_000 }, async () => {
  const service = await startService('redis', { needsControl: true })
  const report = process.env['LOCKS_FIXTURE_REPORT']
  if (report === undefined) throw new Error('LOCKS_FIXTURE_REPORT is not set')
  writeFileSync(report, JSON.stringify({ worker: process.pid, ...tracesOf(service) }))
  if (process.env['LOCKS_FIXTURE_WAITS'] === '1') await new Promise((resolve) => setTimeout(resolve, 50_000))
})
