import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { CommandFailed, run, runMain } from './lib/run.mjs'

// Uses many names once, with a short idle time, on a private server, and prints what is left of them and how much
// memory or disk they take meanwhile. Fails if too much is left, or if a name that is used again does not get a higher
// fence. Build first. With --idle 0 nothing is dropped, for comparison.
//
//   node scripts/leftovers.mjs redis postgres-row --names 20000 --idle 2000

const config = fileURLToPath(import.meta.resolve('../conformance/leftovers/vitest.config.ts'))

await runMain(async () => {
  const { values, positionals } = parseArgs({
    options: { names: { type: 'string', default: '20000' }, idle: { type: 'string', default: '2000' } },
    allowPositionals: true,
  })
  for (const [key, value] of Object.entries(values))
    if (!/^\d+$/.test(value)) throw new CommandFailed(`--${key} needs a whole number`, 2)
  for (const store of positionals.length === 0 ? ['redis'] : positionals) {
    const env = {
      LOCKS_LEFTOVERS_STORE: store,
      LOCKS_LEFTOVERS_NAMES: values.names,
      LOCKS_LEFTOVERS_IDLE_MS: values.idle,
    }
    const args = ['node_modules/vitest/vitest.mjs', 'run', '--config', config, '--disable-console-intercept']
    const { exitCode } = await run(process.execPath, args, { env, inherit: true })
    if (exitCode !== 0) throw new CommandFailed(`${store} failed`, exitCode)
  }
})
