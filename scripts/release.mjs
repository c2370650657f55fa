import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { bootstrap, providePnpm } from './bootstrap.mjs'
import { checkMetadata, repositoryFaults } from './lib/metadata.mjs'
import { nextVersions } from './lib/next-versions.mjs'
import { packAll, publicPackages } from './lib/packages.mjs'
import { CommandFailed, run, runMain, step } from './lib/run.mjs'

const { values } = parseArgs({ options: { 'dry-run': { type: 'boolean' } } })

await runMain(async () => {
  // Before all the work: npm refuses provenance without it.
  if (!values['dry-run']) await requireRepository()
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

async function requireRepository() {
  const faults = await Promise.all((await publicPackages()).map(repositoryFaults))
  if (faults.flat().length > 0) throw new CommandFailed(faults.flat().join('\n'), 1)
}

async function showPackages() {
  const folder = await mkdtemp(join(tmpdir(), 'locks-release-'))
  try {
    const packed = await packAll(folder)
    await step('metadata', () => checkMetadata(packed))
    for (const { name, version, files, tarball } of packed) {
      const kilobytes = Math.ceil((await stat(tarball)).size / 1024)
      console.log(`\n${name}@${version}, ${kilobytes} kB\n${files.map((file) => `  ${file}`).join('\n')}`)
    }
    console.log('\nversions after the pending changesets')
    for (const { name, version, next } of await nextVersions())
      console.log(`  ${name} ${version}${next === version ? ' unchanged' : ` → ${next}`}`)
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
