import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { CommandFailed, root, runMain } from './lib/run.mjs'

// Writes docs/matrix.md from what a test run found, or several that had a part of the backends each:
// LOCKS_TEST_RULES=/tmp/rules.json npm test && node scripts/matrix.mjs /tmp/rules.json

/** @typedef {{ backend: string, area: string, rule: string, state: 'passed' | 'failed' | 'untested', reason?: string }} RuleOutcome */

await runMain(async () => {
  const { positionals } = parseArgs({ allowPositionals: true })
  if (positionals.length === 0) throw new CommandFailed('which run? node scripts/matrix.mjs FILE…', 2)
  const rules = (await Promise.all(positionals.map(rulesIn))).flat()
  await writeFile(join(root, 'docs/matrix.md'), render(rules))
})

/** @param {string} file */
async function rulesIn(file) {
  /** @type {RuleOutcome[]} */
  const rules = JSON.parse(await readFile(resolve(file), 'utf8'))
  if (rules.length === 0) throw new CommandFailed(`${file} tells of no rule of the suite`, 1)
  return rules
}

/** @param {readonly RuleOutcome[]} rules */
function render(rules) {
  const backends = [...new Set(rules.map(({ backend }) => backend))].toSorted()
  const areas = [...new Set(rules.map(({ area }) => area))]
  const head = ['backend', ...areas.map((area) => heading(area, rules)), 'all']
  const rows = backends.map((backend) => {
    const own = rules.filter((one) => one.backend === backend)
    return [`\`${backend}\``, ...areas.map((area) => cell(own.filter((one) => one.area === area))), cell(own)]
  })
  const table = [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')
  return `---
aside: false
pageClass: wide
---

# Conformance matrix

What the suite found on every backend, area by area: rules that passed on real servers, ✗ those that failed, – those that were not
tried there, and [why](#untested). Each column leads to its rules.

${table}

This page is written by \`node scripts/matrix.mjs\` from what a test run found, and not by hand.
[\`locks conformance\`](../packages/cli) makes the same for an adapter of yours.

## Untested

${untested(rules, backends)}
`
}

/**
 * The short name of an area is the first part of its rules' ids.
 *
 * @param {string} area
 * @param {readonly RuleOutcome[]} rules
 */
function heading(area, rules) {
  const [prefix = area] = rules.find((one) => one.area === area)?.rule.split('-') ?? []
  return `[${prefix}](spec.md#${area.replaceAll(' ', '-')})`
}

/** @param {readonly RuleOutcome[]} outcomes */
function cell(outcomes) {
  const [passed, failed, left] = /** @type {const} */ (['passed', 'failed', 'untested']).map(
    (state) => outcomes.filter((one) => one.state === state).length,
  )
  const parts = [passed ? `${passed}` : '', failed ? `✗${failed}` : '', left ? `–${left}` : '']
  return parts.filter((part) => part !== '').join('\u00a0') || '·'
}

/**
 * @param {readonly RuleOutcome[]} rules
 * @param {readonly string[]} backends
 */
function untested(rules, backends) {
  return backends
    .map((backend) => {
      const own = rules.filter((one) => one.backend === backend && one.state === 'untested')
      const reasons = [...new Set(own.map(({ reason = '' }) => reason))]
      const lines = reasons.map((reason) => {
        const ids = own.filter((one) => one.reason === reason).map(({ rule }) => rule)
        return `- ${reason}: ${ids.join(', ')}`
      })
      return lines.length === 0 ? '' : `### ${backend}\n\n${lines.join('\n')}`
    })
    .filter((text) => text !== '')
    .join('\n\n')
}
