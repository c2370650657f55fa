import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Application } from 'typedoc'

/** @typedef {{ name: string, source: string, about: string }} Module */

/** Exported for other packages of this repository, and not covered by semver. */
const internal = ['redis/node']

const layout = {
  outputFileStrategy: 'modules',
  entryFileName: 'index',
  hidePageHeader: true,
  hideBreadcrumbs: true,
  useCodeBlocks: true,
  parametersFormat: 'table',
  interfacePropertiesFormat: 'table',
  typeDeclarationFormat: 'table',
  tableColumnSettings: { hideSources: true, hideInherited: true, hideOverrides: true },
  pageTitleTemplates: { index: 'API reference', module: '@locks/{name}' },
}

/**
 * Writes the API reference from the sources: one page for everything a program may import.
 *
 * @param {string} root the repository
 */
export async function writeApi(root) {
  const all = await exportedModules(root)
  const modules = all.filter(({ name }) => !internal.includes(name))
  const out = join(root, 'docs/api')
  await rm(out, { recursive: true, force: true })
  const app = await Application.bootstrapWithPlugins({
    plugin: ['typedoc-plugin-markdown'],
    entryPoints: modules.map(({ source }) => join(root, source)),
    tsconfig: join(root, 'docs/tsconfig.api.json'),
    // One program of all sources, so that a type of one package is found from another.
    compilerOptions: {
      paths: Object.fromEntries(all.map(({ name, source }) => [`@locks/${name}`, [join(root, source)]])),
    },
    out,
    readme: 'none',
    disableSources: true,
    excludeExternals: true,
    excludePrivate: true,
    logLevel: 'Warn',
    ...layout,
  })
  const project = await app.convert()
  if (project === undefined) throw new Error('the API reference cannot be generated from these sources')
  for (const reflection of project.children ?? []) {
    const own = modules.find(
      ({ source }) => source.replace(/(\/index)?\.ts$/, '') === `packages/${reflection.name}`,
    )
    if (own === undefined) throw new Error(`${reflection.name} is not a module that a program may import`)
    reflection.name = own.name
  }
  await app.generateOutputs(project)
  if (app.logger.hasErrors()) throw new Error('the API reference has errors')
  const list = modules.map(({ name, about }) => `| [\`@locks/${name}\`](${name}.md) | ${about} |`)
  const text = `# API reference\n\nGenerated from the types.\n\n| import | package |\n|---|---|\n${list.join('\n')}\n`
  await writeFile(join(out, 'index.md'), text)
}

/**
 * @param {string} root
 * @returns {Promise<Module[]>}
 */
async function exportedModules(root) {
  const folders = await readdir(join(root, 'packages'))
  const modules = await Promise.all(
    folders.map(async (folder) => {
      const manifest = await readFile(join(root, 'packages', folder, 'package.json'), 'utf8')
      /** @type {{ private?: boolean, description: string, exports?: Record<string, string | { types: string }> }} */
      const { description, exports = {} } = JSON.parse(manifest)
      return Object.entries(exports).flatMap(([path, target]) =>
        typeof target === 'string'
          ? []
          : [
              {
                name: join(folder, path),
                source: sourceOf(folder, target.types),
                about: path === '.' ? description : 'a part of the same package, for tests',
              },
            ],
      )
    }),
  )
  return modules.flat()
}

/**
 * @param {string} folder
 * @param {string} types
 */
function sourceOf(folder, types) {
  return join('packages', folder, types.replace('/dist/', '/src/').replace(/\.d\.ts$/, '.ts'))
}
