import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { CommandFailed, root, run, runMain } from './lib/run.mjs'
import { tortureFailures, tortureTable } from './lib/torture-table.mjs'

// Runs torture on every backend, on private real servers with server faults, and prints a table. Build first.

const usage = `node scripts/torture.mjs [--backends redis,postgres-row] [--for 10m] [--side-by-side 4]
  [--processes 4] [--seed N] [--json FILE]`
const config = fileURLToPath(import.meta.resolve('../conformance/torture/vitest.config.ts'))
const all = [
  'redis',
  'redis-given',
  'redis-sentinel',
  'redis-cluster',
  'redlock-3',
  'redlock-3-unfenced',
  'zookeeper',
  'zookeeper-ensemble',
  'postgres-unique-key',
  'postgres-row',
  'postgres-advisory',
  'mysql-unique-key',
  'mysql-row',
  'mysql-named',
  'cas-redis',
  'cas-file',
]

await runMain(async () => {
  const { values } = parseArgs({
    options: {
      backends: { type: 'string', default: all.join(',') },
      for: { type: 'string', default: '10m' },
      'side-by-side': { type: 'string', default: '4' },
      processes: { type: 'string', default: '4' },
      seed: { type: 'string', default: '1' },
      json: { type: 'string' },
      help: { type: 'boolean' },
    },
  })
  if (values.help) return console.log(usage)
  const backends = values.backends.split(',')
  const unknown = backends.find((name) => !all.includes(name))
  if (unknown !== undefined)
    throw new CommandFailed(`unknown backend ${unknown}; known: ${all.join(', ')}`, 2)
  const folder = await mkdtemp(join(tmpdir(), 'locks-torture-run-'))
  const settings = {
    backends,
    forMs: durationOf(values.for),
    seed: wholeNumber('seed', values.seed),
    processes: wholeNumber('processes', values.processes),
    sideBySide: wholeNumber('side-by-side', values['side-by-side']),
    folder,
  }
  // Checked before a run of minutes.
  if (values.json !== undefined) await writeFile(values.json, '')
  const args = ['node_modules/vitest/vitest.mjs', 'run', '--config', config]
  // The histories of several long runs are judged in one process.
  const env = { LOCKS_TORTURE: JSON.stringify(settings), NODE_OPTIONS: '--max-old-space-size=8192' }
  const { exitCode } = await run(process.execPath, args, { cwd: root, env, inherit: true })
  const outcomes = await Promise.all(backends.map((name) => outcomeOf(folder, name, settings.seed)))
  const failures = tortureFailures(outcomes)
  console.log(['', tortureTable(outcomes), ...failures].join('\n'))
  if (values.json !== undefined) await writeFile(values.json, JSON.stringify({ settings, outcomes }, null, 2))
  if (failures.length > 0) throw new CommandFailed(`torture failed; the histories are in ${folder}`, 1)
  await rm(folder, { recursive: true, force: true })
  if (exitCode !== 0) throw new CommandFailed('torture could not run', 1)
})

/**
 * @param {string} folder
 * @param {string} name
 * @param {number} seed
 * @returns {Promise<import('./lib/torture-table.mjs').Outcome>}
 */
async function outcomeOf(folder, name, seed) {
  try {
    return JSON.parse(await readFile(join(folder, `${name}.json`), 'utf8'))
  } catch (error) {
    return {
      name,
      seed,
      failure: `it did not run: ${error instanceof Error ? error.message : String(error)}`,
    }
  }
}

/**
 * @param {string} option
 * @param {string} text
 */
function wholeNumber(option, text) {
  if (!/^\d{1,9}$/.test(text)) throw new CommandFailed(`--${option} must be a whole number, not ${text}`, 2)
  return Number(text)
}

/** @param {string} text */
function durationOf(text) {
  const [, amount = '', unit = ''] = /^(\d+)(s|m|h)$/.exec(text) ?? []
  const unitMs = new Map([
    ['s', 1_000],
    ['m', 60_000],
    ['h', 3_600_000],
  ]).get(unit)
  if (unitMs === undefined)
    throw new CommandFailed(`--for must be a duration such as 30s or 10m, not ${text}`, 2)
  return Number(amount) * unitMs
}
