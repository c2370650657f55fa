import { CommandFailed } from './lib/run.mjs'
import { conclude, runVitest, testCommand } from './lib/test-run.mjs'

const usage = `npm test -- [--only <backends>] [--help]

Installs the dependencies, builds the packages and runs every test.

  --only <backends>  conformance of these backends alone, separated by commas: --only memory,redis
  --help             this text

The last line reads "N passed, N failed". The exit code is 0 only when something passed and nothing failed.`

await testCommand(usage, { only: { type: 'string' } }, async ({ only }) => {
  const { summary, exitCode } = await runVitest([], typeof only === 'string' ? { LOCKS_ONLY: only } : {})
  if ('refusal' in summary) throw new CommandFailed(summary.refusal, exitCode || 1)
  console.log(`\n${summary.table}\n`)
  return conclude(summary, exitCode)
})
