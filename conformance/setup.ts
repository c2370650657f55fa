import { judgeVoidRuns } from './void-runs.ts'

judgeVoidRuns()

const home = process.env['LOCKS_TEST_HOME']
if (home !== undefined) process.chdir(home)

// A run that was interrupted leaves its workers behind, and vitest does not end them.
if (process.connected && process.listenerCount('disconnect') === 0)
  process.once('disconnect', () => process.exit(1))
