import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { CommandFailed, run, runMain } from './lib/run.mjs'

// What a store keeps of names that were used once: uses so many, with a short idle time, and prints what is left and
// how much memory or disk it takes meanwhile, on a server of its own. Fails if more is left than should be, or if a
// name that comes back gets a fence that is not higher. Build first. With --idle 0 nothing is dropped: that is what
// to compare with.
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
