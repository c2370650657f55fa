import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'

/** What may be in a package: compiled code with its types, and what people read. */
const allowed = [
  /^dist\/.+\.(js|mjs|d\.ts)$/,
  /^bin\/[\w-]+\.js$/,
  /^(package\.json|README\.md|LICENSE|CHANGELOG\.md)$/,
]
const needed = ['package.json', 'README.md', 'LICENSE', 'dist/index.js', 'dist/index.d.ts']

/** Fields of a manifest that npm's pages, bundlers and installers read, and what each has to be. */
const fields = new Map([
  ['description', (/** @type {unknown} */ value) => typeof value === 'string' && value.length > 20],
  ['keywords', (/** @type {unknown} */ value) => Array.isArray(value) && value.length >= 4],
  ['license', (/** @type {unknown} */ value) => value === 'MIT'],
  ['type', (/** @type {unknown} */ value) => value === 'module'],
  ['sideEffects', (/** @type {unknown} */ value) => value === false],
  ['files', (/** @type {unknown} */ value) => Array.isArray(value) && value.includes('dist')],
  ['engines', (/** @type {unknown} */ value) => JSON.stringify(value) === '{"node":">=20.19"}'],
  [
    'publishConfig',
    (/** @type {unknown} */ value) => JSON.stringify(value) === '{"access":"public","provenance":true}',
  ],
])

/**
 * npm's provenance needs this field; the publisher adds it.
 *
 * @param {Record<string, unknown> | undefined} value
 * @param {string} folder
 */
function isRepository(value, folder) {
  const isUrl = /^(git\+)?https:\/\/[^/]+\/.+/.test(String(value?.['url']))
  return value?.['type'] === 'git' && isUrl && value['directory'] === directoryOf(folder)
}

/** @param {string} folder */
function directoryOf(folder) {
  return `packages/${basename(folder)}`
}

/**
 * What is wrong with the manifest of a package, field by field.
 *
 * @param {{ name: string, folder: string }} each
 * @returns {Promise<string[]>}
 */
export async function manifestFaults({ name, folder }) {
  /** @type {{ repository?: Record<string, unknown>, [key: string]: unknown }} */
  const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
  const { repository } = manifest
  return [
    ...[...fields].filter(([key, isRight]) => !isRight(manifest[key])).map(([key]) => key),
    ...(repository === undefined || isRepository(repository, folder) ? [] : ['repository']),
  ].map((key) => `${name}: ${key} is not right`)
}

/**
 * What npm would refuse to publish, with what to add. Sources are complete without it.
 *
 * @param {{ name: string, folder: string }} each
 * @returns {Promise<string[]>}
 */
export async function repositoryFaults({ name, folder }) {
  /** @type {{ repository?: Record<string, unknown> }} */
  const { repository } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
  if (isRepository(repository, folder)) return []
  const example = {
    type: 'git',
    url: 'git+https://github.com/OWNER/NAME.git',
    directory: directoryOf(folder),
  }
  return [`${name}: package.json needs "repository": ${JSON.stringify(example)}`]
}

/**
 * What is wrong with the contents of a tarball, file by file.
 *
 * @param {{ name: string, files: readonly string[], entries: readonly string[] }} each
 * @returns {string[]}
 */
export function contentFaults({ name, files, entries }) {
  const superfluous = files.filter((file) => !allowed.some((pattern) => pattern.test(file)))
  // A package that is only a command has no entry to import.
  const wanted = needed.filter((file) => entries.length > 0 || !file.startsWith('dist/index'))
  const missing = wanted.filter((file) => !files.includes(file))
  return [
    ...superfluous.map((file) => `${name}: ${file} should not be published`),
    ...missing.map((file) => `${name}: ${file} is missing`),
  ]
}

/**
 * Both, of every package.
 *
 * @param {readonly import('./packages.mjs').PackedPackage[]} packed
 * @returns {Promise<{ exitCode: number, output: string }>}
 */
export async function checkMetadata(packed) {
  const manifests = await Promise.all(packed.map(manifestFaults))
  const faults = [...manifests.flat(), ...packed.flatMap(contentFaults)]
  return { exitCode: faults.length === 0 ? 0 : 1, output: faults.join('\n') }
}
