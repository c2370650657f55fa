import { cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { publicPackages } from './packages.mjs'
import { CommandFailed, root, run } from './run.mjs'

/**
 * @typedef {object} NextVersion
 * @property {string} name
 * @property {string} version as it is now
 * @property {string} next
 * @property {string} changelog as it would be; empty if there is none
 */

/**
 * What `changeset version` would make of the changesets in `folder`, tried on a copy of the manifests.
 *
 * @param {string} [folder]
 * @returns {Promise<NextVersion[]>}
 */
export async function nextVersions(folder = join(root, '.changeset')) {
  const workspace = await mkdtemp(join(tmpdir(), 'locks-versions-'))
  try {
    const packages = await publicPackages()
    const homes = packages.map((each) => relative(root, each.folder))
    const manifests = homes.map((home) => join(home, 'package.json'))
    for (const file of ['package.json', 'pnpm-workspace.yaml', ...manifests]) {
      await mkdir(dirname(join(workspace, file)), { recursive: true })
      await cp(join(root, file), join(workspace, file))
    }
    await cp(folder, join(workspace, '.changeset'), { recursive: true })
    const { exitCode, output } = await run('changeset', ['version'], { cwd: workspace })
    if (exitCode !== 0) throw new CommandFailed(output, exitCode)
    return await Promise.all(
      packages.map(async ({ name, version }, n) => {
        const home = join(workspace, homes[n] ?? '')
        const manifest = JSON.parse(await readFile(join(home, 'package.json'), 'utf8'))
        const changelog = await readFile(join(home, 'CHANGELOG.md'), 'utf8').catch(() => '')
        return { name, version, next: String(manifest.version), changelog }
      }),
    )
  } finally {
    await rm(workspace, { recursive: true, force: true })
  }
}
