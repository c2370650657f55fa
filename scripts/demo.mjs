import { bootstrap } from './bootstrap.mjs'
import { run, runMain } from './lib/run.mjs'

const usage = `npm run demo -- [options]

Installs the dependencies, builds the packages and runs the demonstration.
Every option but --help is passed on to examples/demo/main.mjs.`

await runMain(async () => {
  const args = process.argv.slice(2)
  if (args.includes('--help') || args.includes('-h')) {
    console.log(usage)
    return 0
  }
  await bootstrap()
  const { exitCode } = await run(process.execPath, ['examples/demo/main.mjs', ...args], { inherit: true })
  return exitCode
})
