import { parseArgs } from 'node:util'
import { bootstrap } from './bootstrap.mjs'
import { CommandFailed, runMain } from './lib/run.mjs'
import { conclude, runVitest } from './lib/test-run.mjs'

const usage = `npm test -- [--only <backends>] [--help]

Installs the dependencies, builds the packages and runs every test.

  --only <backends>  conformance of these backends alone, separated by commas: --only memory,redis
  --help             this text

The last line reads "N passed, N failed". The exit code is 0 only when something passed and nothing failed.`

await runMain(async () => {
  const { only, help } = readArguments()
  if (help) {
    console.log(usage)
    return 0
  }
  try {
    await bootstrap()
    return await runTests(only)
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error
    console.log(`${error.message}\n`)
    return conclude({ passed: 0, failed: 1 }, error.exitCode)
  }
})

function readArguments() {
  try {
    const { values } = parseArgs({
      options: { only: { type: 'string' }, help: { type: 'boolean', short: 'h' } },
    })
    if (values.only?.trim() === '') throw new Error('--only needs at least one backend')
    return values
  } catch (error) {
    throw new CommandFailed(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`, 2)
  }
}

/** @param {string | undefined} only */
async function runTests(only) {
  const { summary, exitCode } = await runVitest([], only === undefined ? {} : { LOCKS_ONLY: only })
  if ('refusal' in summary) throw new CommandFailed(summary.refusal, exitCode || 1)
  console.log(`\n${summary.table}\n`)
  return conclude(summary, exitCode)
}
