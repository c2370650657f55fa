import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadAdapter, systemClock } from '@locks/core/adapter'
import { backends, renderTable } from '../../scripts/lib/behaviour.mjs'

/**
 * The adapters in the order of the site, and what to open to read their capabilities. No connection is made.
 *
 * @type {ReadonlyMap<string, Readonly<Record<string, import('@locks/core').LocksConfig>>>}
 */
const adapters = new Map([
  ['memory', { memory: 'memory:' }],
  ['cas', { file: 'file:.', redis: { adapter: '@locks/cas', store: 'redis', url: 'redis://localhost' } }],
  ['redis', { redis: 'redis://localhost' }],
  ['redlock', { redlock: 'redlock://a:1,b:1,c:1' }],
  ['zookeeper', { zookeeper: 'zookeeper://localhost' }],
  [
    'postgres',
    {
      'unique-key': 'postgres://localhost/app',
      row: 'postgres://localhost/app?strategy=row',
      advisory: 'postgres://localhost/app?strategy=advisory',
    },
  ],
  [
    'mysql',
    {
      'unique-key': 'mysql://localhost/app',
      row: 'mysql://localhost/app?strategy=row',
      named: 'mysql://localhost/app?strategy=named',
    },
  ],
])

const headings = ['What it guarantees', 'What it does not', 'Options', 'Server settings']

/**
 * Writes a page for every adapter: its README, its capabilities and its measurements.
 *
 * @param {string} root the repository
 */
export async function writeAdapterPages(root) {
  const folder = join(root, 'docs/adapters')
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder)
  /** @type {import('../../scripts/lib/behaviour.mjs').Behaviour} */
  const behaviour = JSON.parse(await readFile(join(root, 'docs/behaviour.json'), 'utf8'))
  for (const [name, configs] of adapters) {
    const readme = await readFile(join(root, 'packages', name, 'README.md'), 'utf8')
    checkHeadings(name, readme)
    const measured = behaviour.backends.filter(({ backend }) => backends.get(backend) === name)
    const parts = [readme.trimEnd(), await capabilities(configs), failures(measured)]
    await writeFile(join(folder, `${name}.md`), `${parts.join('\n\n')}\n`)
  }
}

/**
 * All adapter pages have the same structure.
 *
 * @param {string} name
 * @param {string} readme
 */
function checkHeadings(name, readme) {
  const found = [...readme.matchAll(/^## (.*)$/gm)].map(([, heading = '']) => heading)
  const shared = found.filter((heading) => headings.includes(heading))
  if (shared.join() !== headings.join())
    throw new Error(`packages/${name}/README.md needs the headings ${headings.join(', ')}, in this order`)
}

/** @param {Readonly<Record<string, import('@locks/core').LocksConfig>>} configs */
async function capabilities(configs) {
  const columns = await Promise.all(Object.values(configs).map(capabilitiesOf))
  const keys = Object.keys(columns[0] ?? {}).filter((key) => key !== 'modes')
  const rows = keys.map((key) => [`\`${key}\``, ...columns.map((column) => String(column[key]))])
  const head = ['', ...Object.keys(configs)]
  const lines = [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`)
  return `## Capabilities\n\nThe values of \`locks.capabilities\`. The [API](/api/core.md#capabilities) explains them.\n\n${lines.join('\n')}`
}

/**
 * @param {import('@locks/core').LocksConfig} config
 * @returns {Promise<Record<string, unknown>>}
 */
async function capabilitiesOf(config) {
  const factory = await loadAdapter(config)
  const adapter = factory({ clientId: 'docs', clock: systemClock, report: () => undefined })
  await adapter.close?.()
  return { ...adapter.capabilities }
}

/** @param {readonly import('../../scripts/lib/behaviour.mjs').Measured[]} measured */
function failures(measured) {
  const text =
    measured.length === 0
      ? 'The store ends with the process, so neither holder nor waiter can fail on their own.'
      : `${renderTable(measured, 'columns')}\n\n[How this was measured, and what the words mean](/choosing.md#measured).`
  return `## When something fails\n\n${text}`
}
