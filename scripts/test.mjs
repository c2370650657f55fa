import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { bootstrap } from './bootstrap.mjs'
import { CommandFailed, run, runMain } from './lib/run.mjs'

const usage = `npm test -- [--only <backends>] [--help]

Installs the dependencies, builds the packages and runs every test.

  --only <backends>  conformance of these backends alone, separated by commas: --only memory,redis
  --help             this text

The last line reads "N passed, N failed". The exit code is 0 only when something passed and nothing failed.`

/** @typedef {{ passed: number, failed: number, untested: number, table: string }} Summary */

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
  const folder = await mkdtemp(join(tmpdir(), 'locks-test-'))
  const summaryFile = join(folder, 'summary.json')
  try {
    const { exitCode } = await run(
      process.execPath,
      ['node_modules/vitest/vitest.mjs', 'run', '--allowOnly=false'],
      {
        inherit: true,
        env: { LOCKS_TEST_SUMMARY: summaryFile, ...(only === undefined ? {} : { LOCKS_ONLY: only }) },
      },
    )
    const summary = await readSummary(summaryFile)
    if (summary === undefined) throw new CommandFailed('The test run ended without a summary.', exitCode || 1)
    console.log(`\n${summary.table}\n`)
    return conclude(summary, exitCode)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * @param {string} file
 * @returns {Promise<Summary | undefined>}
 */
async function readSummary(file) {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch {
    return undefined
  }
}

/**
 * Prints the last line. Whatever made the run fail shows there as at least one failure.
 *
 * @param {{ passed: number, failed: number }} counts
 * @param {number} exitCode
 */
function conclude({ passed, failed }, exitCode) {
  const code = exitCode || (failed > 0 || passed === 0 ? 1 : 0)
  if (passed === 0 && failed === 0) console.log('No test ran.')
  console.log(`${passed} passed, ${code === 0 ? 0 : Math.max(1, failed)} failed`)
  return code
}
