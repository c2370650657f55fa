import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { renderMatrix } from './lib/matrix.mjs'
import { CommandFailed, root, runMain } from './lib/run.mjs'

// Writes docs/matrix.md from what a test run found, or several that had a part of the backends each:
// LOCKS_TEST_RULES=/tmp/rules.json npm test && node scripts/matrix.mjs /tmp/rules.json

await runMain(async () => {
  const { positionals } = parseArgs({ allowPositionals: true })
  if (positionals.length === 0) throw new CommandFailed('which run? node scripts/matrix.mjs FILE…', 2)
  const rules = (await Promise.all(positionals.map(rulesIn))).flat()
  await writeFile(join(root, 'docs/matrix.md'), renderMatrix(rules))
})

/** @param {string} file */
async function rulesIn(file) {
  /** @type {import('./lib/matrix.mjs').RuleOutcome[]} */
  const rules = JSON.parse(await readFile(resolve(file), 'utf8'))
  if (rules.length === 0) throw new CommandFailed(`${file} has no rule of the suite`, 1)
  return rules
}
