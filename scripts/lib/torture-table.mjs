/**
 * What was seen of one backend.
 *
 * @typedef {object} Outcome
 * @property {string} name
 * @property {number} seed
 * @property {string} [failure] why it has no result
 * @property {string} [history] where its history was kept
 * @property {number} [grants]
 * @property {number} [contendedWaits]
 * @property {number} [busy]
 * @property {number} [timeouts]
 * @property {number} [losses]
 * @property {number} [refusedWrites]
 * @property {Readonly<Record<string, number>>} [faults]
 * @property {readonly { readonly check: string, readonly message: string }[]} [violations]
 * @property {readonly unknown[]} [withinBound]
 * @property {{ readonly p50: number, readonly max: number }} [recoveryMs]
 */

const MOST_SHOWN = 20

const heads = [
  'backend',
  'grants',
  'after a wait',
  'not granted',
  'ended before release',
  'stale writes refused',
  'faults',
  'violations',
  'within the bound',
  'recovery p50 / max',
]

/**
 * What was counted, as a table in Markdown.
 *
 * @param {readonly Outcome[]} outcomes
 */
export function tortureTable(outcomes) {
  return [heads, heads.map(() => '---'), ...outcomes.map(rowOf)]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n')
}

/** @param {Outcome} outcome */
function rowOf({ name, failure, ...one }) {
  if (failure !== undefined || one.recoveryMs === undefined)
    return [name, ...heads.slice(1).map((_, column) => (column === 0 ? 'failed' : ''))]
  const faults = Object.entries(one.faults ?? {}).map(([kind, count]) => `${kind} ${count}`)
  const { p50, max } = one.recoveryMs
  return [
    name,
    one.grants,
    one.contendedWaits,
    (one.busy ?? 0) + (one.timeouts ?? 0),
    one.losses,
    one.refusedWrites,
    faults.join(', '),
    one.violations?.length,
    one.withinBound?.length,
    `${Math.round(p50)} / ${Math.round(max)} ms`,
  ]
}

/**
 * What went wrong, each with what is needed to look into it.
 *
 * @param {readonly Outcome[]} outcomes
 */
export function tortureFailures(outcomes) {
  return outcomes.flatMap(({ name, seed, failure, history, violations = [] }) => {
    const found = violations.map(({ check, message }) => `${check}: ${message}`)
    const lines = failure === undefined ? found : [failure]
    if (lines.length === 0) return []
    return [
      `${name}, seed ${seed}, history in ${history ?? 'no file'}`,
      ...lines.slice(0, MOST_SHOWN).map((line) => `  ${line}`),
      ...(lines.length > MOST_SHOWN ? [`  … and ${lines.length - MOST_SHOWN} more`] : []),
    ]
  })
}
