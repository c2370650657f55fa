import { addUp, conclude, runVitest, testCommand } from './lib/test-run.mjs'

const usage = `pnpm interop [--where-possible] [--help]

Builds the packages and shows that they share locks with Java: Redisson on Redis, Curator on ZooKeeper. Needs a
JDK (17 or newer) and Maven; as root on Debian it installs what is missing (default-jdk-headless, maven).

  --where-possible  without Java, say so and do not fail
  --help            this text

The last line reads "N passed, N failed". The exit code is 0 only when something passed and nothing failed.`

await testCommand(usage, { 'where-possible': { type: 'boolean' } }, async (values) => {
  const { summary, exitCode } = await runVitest(['--config', 'conformance/interop/vitest.config.ts'])
  if (!('refusal' in summary)) return conclude(summary, exitCode)
  console.log(`\nInterop with Java was not run: ${summary.refusal}`)
  if (!values['where-possible']) return conclude({ passed: 0, failed: 1 }, 1)
  await addUp({ passed: 0, failed: 0 })
  return 0
})
