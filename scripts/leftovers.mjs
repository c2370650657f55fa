import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { CommandFailed, run, runMain } from './lib/run.mjs'

// What a store keeps of names that were used once: uses so many, with a short idle time, and prints what is left and
// how much memory or disk it takes meanwhile, on servers of its own. A second client that keeps everything takes turns
// with it, for comparison. Fails if 1,000 or more are left beside those of the last idle time, if a name that comes
// back gets a fence that is not higher, if memory or disk grows, or if it is slower or takes more CPU time by more than
// 5 %. Ends after --minutes per store with fewer names. Build first. With --idle 0 neither drops anything: that shows
// how much the rates differ by chance. With --before the second client is that of an earlier version, built in that folder.
//
//   node scripts/leftovers.mjs redis postgres-row --names 1000000 --idle 1000 --minutes 15

const config = fileURLToPath(import.meta.resolve('../conformance/leftovers/vitest.config.ts'))

await runMain(async () => {
  const {
    values: { before, ...values },
    positionals,
  } = parseArgs({
    options: {
      names: { type: 'string', default: '20000' },
      idle: { type: 'string', default: '1000' },
      minutes: { type: 'string', default: '15' },
      before: { type: 'string' },
    },
    allowPositionals: true,
  })
  for (const [key, value] of Object.entries(values))
    if (!/^\d+$/.test(value)) throw new CommandFailed(`--${key} needs a whole number`, 2)
  for (const store of positionals.length === 0 ? ['redis'] : positionals) {
    // Removed here: the process that measures does not survive Ctrl-C.
    const folder = await mkdtemp(join(tmpdir(), 'locks-leftovers-'))
    const env = {
      LOCKS_LEFTOVERS_STORE: store,
      LOCKS_LEFTOVERS_NAMES: values.names,
      LOCKS_LEFTOVERS_IDLE_MS: values.idle,
      LOCKS_LEFTOVERS_MINUTES: values.minutes,
      LOCKS_LEFTOVERS_FOLDER: folder,
      ...(before !== undefined && { LOCKS_LEFTOVERS_BEFORE: resolve(before) }),
    }
    const args = ['node_modules/vitest/vitest.mjs', 'run', '--config', config, '--disable-console-intercept']
    try {
      const { exitCode } = await run(process.execPath, args, { env, inherit: true })
      if (exitCode !== 0) throw new CommandFailed(`${store} failed`, exitCode)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
})
