import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'

/** Sources that are still part of a cycle. This list only gets shorter. */
const known = [
  'packages/cli/src/command.ts',
  'packages/cli/src/commands/bench.ts',
  'packages/cli/src/commands/break.ts',
  'packages/cli/src/commands/conformance.ts',
  'packages/cli/src/commands/doctor.ts',
  'packages/cli/src/commands/inspect.ts',
  'packages/cli/src/commands/ls.ts',
  'packages/cli/src/commands/migrate.ts',
  'packages/cli/src/commands/prune.ts',
  'packages/cli/src/commands/run.ts',
  'packages/cli/src/commands/torture.ts',
  'packages/cli/src/conformance/outcome.ts',
  'packages/cli/src/conformance/worker-protocol.ts',
  'packages/cli/src/torture/check-busy.ts',
  'packages/cli/src/torture/failure.ts',
  'packages/cli/src/torture/lease-checks.ts',
  'packages/cli/src/torture/task.ts',
  'packages/cli/src/torture/use-lease.ts',
  'packages/cli/src/torture/verdict.ts',
  'packages/core/src/api/events.ts',
  'packages/core/src/api/lease.ts',
  'packages/core/src/engine/acquisition.ts',
  'packages/core/src/engine/bounded-call.ts',
  'packages/core/src/engine/context.ts',
  'packages/core/src/engine/hold.ts',
  'packages/core/src/engine/late-release.ts',
  'packages/core/src/engine/name-queue.ts',
  'packages/core/src/engine/re-entry.ts',
  'packages/core/src/engine/renewals.ts',
  'packages/core/src/engine/report-end.ts',
  'packages/core/src/engine/self-deadlock.ts',
]

/**
 * Fails on a source that is part of an import cycle and not known to be, and on a known one that is not any more.
 *
 * @param {string} root the repository
 */
export async function checkImportCycles(root) {
  const found = await importCycles(root)
  const cyclic = found.flat()
  const added = found.filter((files) => files.some((file) => !known.includes(file)))
  const mended = known.filter((file) => !cyclic.includes(file))
  const output = [
    ...added.map((files) => `import cycle, types included, among:\n  ${files.join('\n  ')}`),
    ...mended.map(
      (file) => `${file} is in no import cycle any more: take it out of scripts/lib/import-cycles.mjs`,
    ),
  ]
  return { exitCode: output.length === 0 ? 0 : 1, output: output.join('\n') }
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
  return connected(imports).filter((part) => part.length > 1)
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
