import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { bootstrap, providePnpm } from './bootstrap.mjs'
import { packAll, publicPackages } from './lib/packages.mjs'
import { CommandFailed, run, runMain } from './lib/run.mjs'

const { values } = parseArgs({ options: { 'dry-run': { type: 'boolean' } } })

await runMain(async () => {
  await providePnpm()
  // An output whose source is gone would otherwise be published with the rest, from dist or from turbo's cache.
  process.env['TURBO_FORCE'] = 'true'
  for (const { folder } of await publicPackages())
    await rm(join(folder, 'dist'), { recursive: true, force: true })
  await bootstrap()
  if (values['dry-run']) return showPackages()
  await inherit(process.execPath, ['scripts/check.mjs'])
  await inherit('changeset', ['publish'])
})

async function showPackages() {
  const folder = await mkdtemp(join(tmpdir(), 'locks-release-'))
  try {
    for (const { name, version, files } of await packAll(folder)) {
      console.log(`\n${name}@${version}\n${files.map((file) => `  ${file}`).join('\n')}`)
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * @param {string} command
 * @param {string[]} args
 */
async function inherit(command, args) {
  const { exitCode } = await run(command, args, { inherit: true })
  if (exitCode !== 0) throw new CommandFailed(`${command} ${args.join(' ')} failed`, exitCode)
}
