import { readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { CommandFailed, root, run } from './run.mjs'

/**
 * @typedef {object} PublicPackage
 * @property {string} name
 * @property {string} version
 * @property {string} folder
 * @property {string[]} clients what has to be installed beside it
 * @property {string[]} entries what a program may import, such as `@locks/core/conformance`
 */

/** @returns {Promise<PublicPackage[]>} */
export async function publicPackages() {
  const folders = (await readdir(join(root, 'packages'))).map((name) => join(root, 'packages', name))
  const packages = await Promise.all(folders.map(describePackage))
  return packages.filter((found) => found !== undefined)
}

/**
 * @typedef {PublicPackage & { tarball: string, files: string[] }} PackedPackage
 */

/**
 * Packs every public package.
 *
 * @param {string} destination
 * @returns {Promise<PackedPackage[]>}
 */
export async function packAll(destination) {
  /** @type {PackedPackage[]} */
  const packed = []
  for (const each of await publicPackages()) packed.push(await pack(each, destination))
  return packed
}

/**
 * Packs a package exactly as it would be published.
 *
 * @param {PublicPackage} each
 * @param {string} destination
 * @returns {Promise<PackedPackage>}
 */
export async function pack(each, destination) {
  const args = ['pack', '--json', '--pack-destination', destination]
  /** @type {{ filename: string }} */
  const { filename: tarball } = JSON.parse(await outputOf('pnpm', args, each.folder))
  // What pnpm itself lists leaves out the licence, which it adds.
  const files = (await outputOf('tar', ['-tzf', tarball], destination)).trim().split('\n')
  return { ...each, tarball, files: files.map((file) => file.replace(/^package\//, '')).sort() }
}

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {string} cwd
 */
async function outputOf(command, args, cwd) {
  const { exitCode, stdout, output } = await run(command, args, { cwd })
  if (exitCode !== 0) throw new CommandFailed(output, exitCode)
  return stdout
}

/**
 * @param {string} folder
 * @returns {Promise<PublicPackage | undefined>}
 */
async function describePackage(folder) {
  /**
   * @type {{ name: string, version: string, private?: boolean, exports?: Record<string, unknown>,
   *   peerDependencies?: Record<string, string>, peerDependenciesMeta?: Record<string, unknown> }}
   */
  const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
  if (manifest.private) return undefined
  const entries = Object.keys(manifest.exports ?? {})
    .filter((path) => path !== './package.json')
    .map((path) => join(manifest.name, path))
  const { name, version, peerDependencies = {}, peerDependenciesMeta = {} } = manifest
  const clients = Object.keys(peerDependencies).filter((peer) => !(peer in peerDependenciesMeta))
  return { name, version, folder, entries, clients }
}
