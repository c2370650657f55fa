import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { bootstrap } from '../bootstrap.mjs'
import { CommandFailed, run, runMain } from './run.mjs'

/**
 * @typedef {{ passed: number, failed: number }} Counts
 * @typedef {Counts & { untested: number, table: string }} Summary
 * @typedef {{ summary: Summary | { refusal: string }, exitCode: number }} TestRun
 * @typedef {Record<string, { type: 'string' | 'boolean' }>} Options
 * @typedef {Record<string, string | boolean | undefined>} Values
 */

/**
 * A command that installs, builds and runs tests. Anything that stops it counts as a failure.
 *
 * @param {string} usage
 * @param {Options} options beside --help
 * @param {(values: Values) => Promise<number>} runTests
 */
export function testCommand(usage, options, runTests) {
  return runMain(async () => {
    const { help, ...values } = readArguments(usage, options)
    if (help) {
      console.log(usage)
      return 0
    }
    try {
      await bootstrap()
      return await runTests(values)
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error
      console.log(`${error.message}\n`)
      return conclude({ passed: 0, failed: 1 }, error.exitCode)
    }
  })
}

/**
 * @param {string} usage
 * @param {Options} options
 * @returns {Values}
 */
function readArguments(usage, options) {
  try {
    /** @type {{ values: Values }} */
    const { values } = parseArgs({ options: { ...options, help: { type: 'boolean', short: 'h' } } })
    for (const [key, value] of Object.entries(values))
      if (typeof value === 'string' && value.trim() === '') throw new Error(`--${key} needs a value`)
    return values
  } catch (error) {
    throw new CommandFailed(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`, 2)
  }
}

/** Tests leave this machine for nothing, and to read certificates takes each of a thousand processes longer than to start. */
const loopbackOnly = { NODE_EXTRA_CA_CERTS: '' }

/**
 * One run of vitest, with what its reporter counted; or why it could not begin.
 *
 * @param {readonly string[]} args
 * @param {Record<string, string>} [env]
 * @returns {Promise<TestRun>}
 */
export async function runVitest(args, env = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'locks-test-'))
  const summaryFile = join(folder, 'summary.json')
  try {
    const { exitCode } = await run(
      process.execPath,
      ['node_modules/vitest/vitest.mjs', 'run', '--allowOnly=false', ...args],
      { inherit: true, env: { ...env, ...loopbackOnly, LOCKS_TEST_SUMMARY: summaryFile } },
    )
    const summary = await readJson(summaryFile)
    if (summary === undefined) throw new CommandFailed('The test run ended without a summary.', exitCode || 1)
    return { summary, exitCode }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * Prints the last line. A run that failed shows at least one failure there. Where several
 * commands make one run, LOCKS_TEST_TALLY names the file in which they add up.
 *
 * @param {Counts} counts
 * @param {number} exitCode
 */
export async function conclude({ passed, failed }, exitCode) {
  const code = exitCode || (failed > 0 || passed === 0 ? 1 : 0)
  if (passed === 0 && failed === 0) console.log('No test ran.')
  const counts = { passed, failed: code === 0 ? 0 : Math.max(1, failed) }
  print(counts)
  await addUp(counts)
  return code
}

/**
 * Adds to what the commands before have counted, and prints the sum where there was one.
 *
 * @param {Counts} counts
 */
export async function addUp(counts) {
  const file = process.env['LOCKS_TEST_TALLY']
  if (!file) return
  const before = await readJson(file)
  const sum = {
    passed: counts.passed + (before?.passed ?? 0),
    failed: counts.failed + (before?.failed ?? 0),
  }
  await writeFile(file, JSON.stringify(sum))
  if (before === undefined) return
  console.log('\nTogether with the earlier tests:')
  print(sum)
}

/** @param {Counts} counts */
function print({ passed, failed }) {
  console.log(`${passed} passed, ${failed} failed`)
}

/** @param {string} file */
async function readJson(file) {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch {
    return undefined
  }
}
