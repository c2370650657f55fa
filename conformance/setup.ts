import './void-runs.ts'

const home = process.env['LOCKS_TEST_HOME']
if (home !== undefined) process.chdir(home)
