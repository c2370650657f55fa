import { parseArgs } from 'node:util'
import { bootstrap } from './bootstrap.mjs'
import { CommandFailed, runMain } from './lib/run.mjs'
import { addUp, conclude, runVitest } from './lib/test-run.mjs'

const usage = `pnpm interop [--where-possible] [--help]

Builds the packages and shows that they share locks with Java: Redisson on Redis, Curator on ZooKeeper. Needs a
JDK (17 or newer) and Maven; as root on Debian it installs what is missing (default-jdk-headless, maven).

  --where-possible  where Java cannot be had, say so and do not fail
  --help            this text

The last line reads "N passed, N failed". The exit code is 0 only when something passed and nothing failed.`

await runMain(async () => {
  const { help, wherePossible } = readArguments()
  if (help) {
    console.log(usage)
    return 0
  }
  try {
    await bootstrap()
    const { summary, exitCode } = await runVitest(['--config', 'conformance/interop/vitest.config.ts'])
    if (!('refusal' in summary)) return await conclude(summary, exitCode)
    console.log(`\nInterop with Java was not run: ${summary.refusal}`)
    if (!wherePossible) return await conclude({ passed: 0, failed: 1 }, 1)
    await addUp({ passed: 0, failed: 0 })
    return 0
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error
    console.log(`${error.message}\n`)
    return conclude({ passed: 0, failed: 1 }, error.exitCode)
  }
})

function readArguments() {
  try {
    const { values } = parseArgs({
      options: { 'where-possible': { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
    })
    return { help: values.help, wherePossible: values['where-possible'] }
  } catch (error) {
    throw new CommandFailed(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`, 2)
  }
}
