import { judgeVoidRuns } from './void-runs.ts'
import './worker.ts'

judgeVoidRuns()

const home = process.env['LOCKS_TEST_HOME']
if (home !== undefined) process.chdir(home)
