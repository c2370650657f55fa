/**
 * The outcome of a rule on a backend. `applicable: false` of an untested rule means that the backend does not claim its
 * capability.
 *
 * @typedef {{ backend: string, area: string, rule: string, state: 'passed' | 'failed' | 'untested', reason?: string,
 *   applicable?: boolean }} RuleOutcome
 */

/** @typedef {'passed' | 'failed' | 'not-tried' | 'not-applicable'} State */

/** @type {readonly State[]} */
const states = ['passed', 'failed', 'not-tried', 'not-applicable']

/** Signs and words, so that nothing depends on colour. @type {Readonly<Record<State, (count: number) => string>>} */
const shown = {
  passed: (count) => `${count}`,
  failed: (count) => `✗ ${count}`,
  'not-tried': (count) => `? ${count}`,
  'not-applicable': (count) => `n/a ${count}`,
}

const legend = `| sign | means |
| --- | --- |
| 12 | 12 rules **passed** on real servers |
| ✗ 1 | 1 rule **failed** |
| ? 3 | 3 rules were **not tried**: they apply, but this run lacked what they need ([why](#not-tried)) |
| n/a 2 | 2 rules are **not applicable**: the backend does not claim their capability ([why](#not-applicable)) |`

/**
 * The page of the matrix: a table of backends by areas, then why rules were left out.
 *
 * @param {readonly RuleOutcome[]} rules
 */
export function renderMatrix(rules) {
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
pageClass: wide matrix
---

# Conformance matrix

The results of the rules of each area on each backend. Each column links to its rules.

${legend}

${table}

\`node scripts/matrix.mjs\` writes this page from the results of a test run.
[\`locks conformance\`](../packages/cli) does the same for your own adapter.

## Not tried

${leftOut(rules, backends, 'not-tried') || 'Every rule that applies was tried.'}

## Not applicable

A reason such as *list is claimed* belongs to a rule about stores that do not claim it.

${leftOut(rules, backends, 'not-applicable') || 'Every rule applies to every backend.'}
`
}

/**
 * @param {RuleOutcome} outcome
 * @returns {State}
 */
function stateOf({ state, applicable }) {
  if (state !== 'untested') return state
  return applicable === false ? 'not-applicable' : 'not-tried'
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
  const parts = states.flatMap((state) => {
    const count = outcomes.filter((one) => stateOf(one) === state).length
    return count === 0 ? [] : [shown[state](count)]
  })
  return parts.join('<br>')
}

/**
 * Backends, their reasons, and the rules. Backends with the same reasons are grouped.
 *
 * @param {readonly RuleOutcome[]} rules
 * @param {readonly string[]} backends
 * @param {State} state
 */
function leftOut(rules, backends, state) {
  /** @type {Map<string, string[]>} */
  const groups = new Map()
  for (const backend of backends) {
    const own = rules.filter((one) => one.backend === backend && stateOf(one) === state)
    const reasons = [...new Set(own.map(({ reason = '' }) => reason))]
    const lines = reasons.map((reason) => {
      const ids = own.filter((one) => one.reason === reason).map(({ rule }) => `\`${rule}\``)
      return `  - ${reason}: ${ids.join(' ')}`
    })
    const text = lines.join('\n')
    if (text !== '') groups.set(text, [...(groups.get(text) ?? []), backend])
  }
  return [...groups].map(([text, own]) => `- **${own.join(', ')}**\n${text}`).join('\n')
}
