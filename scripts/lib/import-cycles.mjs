import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'

/**
 * Fails on sources that import each other in a circle, types included.
 *
 * @param {string} root the repository
 */
export async function checkImportCycles(root) {
  const found = await importCycles(root)
  const output = found.map((files) => `import cycle, types included, among:\n  ${files.join('\n  ')}`)
  return { exitCode: found.length === 0 ? 0 : 1, output: output.join('\n') }
}

/**
 * Import cycles among the sources of each package, types included: each as the files of one strongly connected part.
 *
 * @param {string} root the repository
 * @returns {Promise<string[][]>}
 */
async function importCycles(root) {
  const packages = await readdir(join(root, 'packages'))
  const found = await Promise.all(packages.map((name) => cyclesIn(join(root, 'packages', name, 'src'))))
  return found.flat().map((files) => files.map((file) => relative(root, file)).toSorted())
}

/** @param {string} folder */
async function cyclesIn(folder) {
  return connected(await importsIn(folder)).filter((part) => part.length > 1)
}

/**
 * The files that each source below `folder` imports by a relative path, types included.
 *
 * @param {string} folder
 */
export async function importsIn(folder) {
  const entries = await readdir(folder, { recursive: true })
  const files = entries.filter((name) => name.endsWith('.ts')).map((name) => join(folder, name))
  /** @type {Map<string, readonly string[]>} */
  const imports = new Map()
  for (const file of files) {
    const text = await readFile(file, 'utf8')
    const targets = [...text.matchAll(/\b(?:from|import)\s*\(?\s*'(\.[^']*)'/g)].map(([, to = '']) =>
      resolve(dirname(file), to),
    )
    imports.set(file, targets)
  }
  return imports
}

/**
 * Strongly connected parts, by Tarjan.
 *
 * @param {ReadonlyMap<string, readonly string[]>} edges
 */
function connected(edges) {
  /** @type {string[][]} */
  const parts = []
  /** @type {Map<string, number>} */
  const low = new Map()
  /** @type {string[]} */
  const stack = []
  /** @param {string} node */
  const visit = (node) => {
    const index = low.size
    low.set(node, index)
    const at = stack.push(node) - 1
    let lowest = index
    for (const next of edges.get(node) ?? []) {
      if (!low.has(next)) visit(next)
      lowest = Math.min(lowest, low.get(next) ?? Infinity)
    }
    low.set(node, lowest)
    if (lowest < index) return
    const part = stack.splice(at)
    for (const one of part) low.set(one, Infinity)
    parts.push(part)
  }
  for (const node of edges.keys()) if (!low.has(node)) visit(node)
  return parts
}
