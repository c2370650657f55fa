import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { CommandFailed, root, run, runMain } from './lib/run.mjs'

// Tortures every backend on real servers of its own, the servers included, and prints a table. Build first.

const usage = `node scripts/torture.mjs [--backends redis,postgres-row] [--for 10m] [--side-by-side 4]
  [--processes 4] [--seed N]`
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
      help: { type: 'boolean' },
    },
  })
  if (values.help) return console.log(usage)
  const backends = values.backends.split(',')
  const unknown = backends.find((name) => !all.includes(name))
  if (unknown !== undefined)
    throw new CommandFailed(`no backend is called ${unknown}; there are ${all.join(', ')}`, 2)
  const folder = await mkdtemp(join(tmpdir(), 'locks-torture-run-'))
  const file = join(folder, 'results.md')
  const settings = {
    backends,
    forMs: durationOf(values.for),
    seed: Number(values.seed),
    processes: Number(values.processes),
    sideBySide: Number(values['side-by-side']),
    file,
  }
  try {
    const args = ['node_modules/vitest/vitest.mjs', 'run', '--config', config]
    const env = { LOCKS_TORTURE: JSON.stringify(settings) }
    const { exitCode } = await run(process.execPath, args, { cwd: root, env, inherit: true })
    console.log(await readFile(file, 'utf8'))
    if (exitCode !== 0) throw new CommandFailed('torture found a violation, or could not run', 1)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

/** @param {string} text */
function durationOf(text) {
  const [, amount = '', unit = ''] = /^(\d+)(s|m|h)$/.exec(text) ?? []
  const unitMs = new Map([
    ['s', 1_000],
    ['m', 60_000],
    ['h', 3_600_000],
  ]).get(unit)
  if (unitMs === undefined) throw new CommandFailed(`--for must be such as 30s or 10m, not ${text}`, 2)
  return Number(amount) * unitMs
}
