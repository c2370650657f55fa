import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { backends, renderOrigin, renderTable } from './lib/behaviour.mjs'
import { CommandFailed, root, run, runMain, step } from './lib/run.mjs'

// Measures on real servers what each backend does when a holder or a waiter fails. Writes docs/behaviour.json and the
// table in docs/choosing.md. Build first; with --only the other backends keep what was measured before. With --check it
// only checks that the table matches the data.

const config = fileURLToPath(import.meta.resolve('../conformance/behaviour/vitest.config.ts'))
const dataFile = join(root, 'docs/behaviour.json')
const pageFile = join(root, 'docs/choosing.md')
const [begin, end] = ['<!-- measured -->\n', '<!-- /measured -->']

/** Leases of a second would leave too little of them between the steps of a situation. */
const slow = '2'

await runMain(async () => {
  const { values } = parseArgs({
    options: {
      only: { type: 'string' },
      rounds: { type: 'string', default: '5' },
      check: { type: 'boolean' },
    },
  })
  const before = await readBefore()
  const page = await readFile(pageFile, 'utf8')
  if (values.check) {
    if (page === withTable(page, before)) return
    throw new CommandFailed('the table in docs/choosing.md is not that of docs/behaviour.json', 1)
  }
  const rounds = Number(values.rounds)
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new CommandFailed('--rounds needs a whole number above 0', 2)
  const wanted = values.only?.split(',') ?? [...backends.keys()]
  const unknown = wanted.find((name) => !backends.has(name))
  if (unknown !== undefined)
    throw new CommandFailed(`unknown backend ${unknown}; known: ${[...backends.keys()].join(', ')}`, 2)
  const measured = new Map(before.backends.map((one) => [one.backend, one]))
  for (const backend of wanted) {
    measured.set(backend, await measure(backend, rounds))
    const all = [...backends.keys()].flatMap((name) => measured.get(name) ?? [])
    const date = new Date().toISOString().slice(0, 10)
    const data = { node: process.versions.node, date, backends: all }
    // After each of them, so that a failure of one does not undo the others.
    await writeFile(dataFile, `${JSON.stringify(data, null, 2)}\n`)
    await writeFile(pageFile, withTable(page, data))
  }
})

/** @returns {Promise<import('./lib/behaviour.mjs').Behaviour>} */
async function readBefore() {
  try {
    return JSON.parse(await readFile(dataFile, 'utf8'))
  } catch {
    return { node: '', date: '', backends: [] }
  }
}

/**
 * @param {string} backend
 * @param {number} rounds
 * @returns {Promise<import('./lib/behaviour.mjs').Measured>}
 */
async function measure(backend, rounds) {
  const folder = await mkdtemp(join(tmpdir(), 'locks-behaviour-'))
  const file = join(folder, 'measured.json')
  try {
    const args = ['node_modules/vitest/vitest.mjs', 'run', '--config', config]
    const env = {
      LOCKS_TEST_SLOW: slow,
      LOCKS_BEHAVIOUR_BACKEND: backend,
      LOCKS_BEHAVIOUR_ROUNDS: String(rounds),
      LOCKS_BEHAVIOUR_FILE: file,
    }
    await step(`measuring ${backend}`, () => run(process.execPath, args, { env }))
    /** @type {import('./lib/behaviour.mjs').Measured} */
    const result = JSON.parse(await readFile(file, 'utf8'))
    return { ...result, measured: rounded(result.measured) }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** @param {Record<string, import('./lib/behaviour.mjs').Observation[]>} measured */
function rounded(measured) {
  return JSON.parse(
    JSON.stringify(measured, (_, value) => (typeof value === 'number' ? Math.round(value * 10) / 10 : value)),
  )
}

/**
 * @param {string} page
 * @param {import('./lib/behaviour.mjs').Behaviour} behaviour
 */
function withTable(page, behaviour) {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from < 0 || to < from) throw new CommandFailed(`${pageFile} has no markers for the table`, 1)
  const text = `${renderTable(behaviour.backends)}\n\n${renderOrigin(behaviour)}`
  return `${page.slice(0, from + begin.length)}\n${text}\n\n${page.slice(to)}`
}
