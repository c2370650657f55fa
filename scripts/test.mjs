import { CommandFailed } from './lib/run.mjs'
import { conclude, runVitest, testCommand } from './lib/test-run.mjs'

const usage = `npm test -- [--quick | --all] [--only <backends>] [--help]

Installs the dependencies, builds the packages and runs every test.

  --quick            unit tests, the suite on memory, files and one Redis, and a sample of mutants: three minutes
  --all              every test, on every topology and at length: before a release
  --only <backends>  conformance of these backends alone, separated by commas: --only memory,redis
  --help             this text

The last line reads "N passed, N failed". The exit code is 0 only when something passed and nothing failed.`

/** @type {import('./lib/test-run.mjs').Options} */
const options = { only: { type: 'string' }, quick: { type: 'boolean' }, all: { type: 'boolean' } }

await testCommand(usage, options, async ({ only, quick, all }) => {
  if (quick && (all || only))
    throw new CommandFailed(`--quick cannot be combined with --all or --only\n\n${usage}`, 2)
  const started = performance.now()
  const { summary, exitCode } = await runVitest([], {
    ...(typeof only === 'string' && { LOCKS_ONLY: only }),
    ...(quick && { LOCKS_TEST_SCOPE: 'quick', LOCKS_ONLY: 'memory,cas-file,redis' }),
    ...(all && { LOCKS_TEST_SCOPE: 'all' }),
  })
  if ('refusal' in summary) throw new CommandFailed(summary.refusal, exitCode || 1)
  console.log(
    `\n${summary.table}\n\nThe tests took ${Math.round((performance.now() - started) / 1_000)} s.\n`,
  )
  return conclude(summary, exitCode)
})
