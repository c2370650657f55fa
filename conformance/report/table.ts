import { count, type Outcome, type RuleMeta } from './outcome.ts'

type RuleOutcome = Outcome & { readonly rule: RuleMeta }

const LINE_WIDTH = 100
/** Of an error; the rest is in its file. */
const REASON_LINES = 8

/** The account printed at the end of a run: backends by areas, what was left untested, and what was repeated. */
export function renderReport(outcomes: readonly Outcome[]): string {
  const ofRules = outcomes.filter(belongsToRule).sort((a, b) => a.rule.backend.localeCompare(b.rule.backend))
  const others = outcomes.filter((outcome) => !belongsToRule(outcome))
  const sections = [
    ...(ofRules.length > 0 ? [renderGrid(ofRules)] : []),
    ...(others.length > 0 ? [`Tests of the packages themselves: ${renderCell(others)}`] : []),
    ...renderUntested(outcomes),
    ...renderVoids(outcomes),
  ]
  return sections.join('\n\n')
}

/** `12` passed, `✗1` failed, `–3` untested; zero is not written. */
export function renderCell(outcomes: readonly Outcome[]): string {
  const { passed, failed, untested } = count(outcomes)
  const parts = [
    ...(passed > 0 ? [`${passed}`] : []),
    ...(failed > 0 ? [`✗${failed}`] : []),
    ...(untested > 0 ? [`–${untested}`] : []),
  ]
  return parts.length > 0 ? parts.join(' ') : '·'
}

function renderGrid(outcomes: readonly RuleOutcome[]): string {
  const areas = [...new Set(outcomes.map(({ rule }) => rule.area))]
  const rows = [...groupBy(outcomes, ({ rule }) => rule.backend)].map(([backend, own]) => [
    backend,
    ...areas.map((area) => renderCell(own.filter(({ rule }) => rule.area === area))),
    renderCell(own),
  ])
  const lines = alignColumns([['', ...areas, 'all'], ...rows])
  return [...lines, '', 'n passed · ✗n failed · –n untested, reasons below'].join('\n')
}

function alignColumns(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

/** Printed last: of a long output people and CI services keep the end. */
export function renderFailures(outcomes: readonly Outcome[]): string[] {
  const lines = outcomes
    .filter(({ state }) => state === 'failed')
    .flatMap(({ name, rule, reason, evidence }) => [
      `  ✗ ${rule ? `${rule.backend} ${rule.rule}: ` : ''}${name}`,
      ...(reason?.trim().split('\n').slice(0, REASON_LINES) ?? []).map((line) => `    ${line}`),
      ...(evidence === undefined ? [] : [`    ${evidence}`]),
    ])
  return lines.length > 0 ? [['Failed', ...lines].join('\n')] : []
}

/** What was tried again because the machine stood still, whatever came of it in the end. */
function renderVoids(outcomes: readonly Outcome[]): string[] {
  const lines = outcomes.flatMap(({ name, rule, voids = [] }) =>
    voids.map((why) =>
      wrap(`  ${rule ? `${rule.backend} ${rule.rule}` : name}: ${why.replace(/^void: /, '')}`),
    ),
  )
  return lines.length > 0 ? [[`Void runs, repeated: ${lines.length}`, ...lines].join('\n')] : []
}

function renderUntested(outcomes: readonly Outcome[]): string[] {
  const untested = outcomes.filter(({ state }) => state === 'untested')
  const groups = groupBy(untested, ({ rule, reason }) => `${rule?.backend ?? 'packages'}\n${reason}`)
  const lines = [...groups].map(([key, group]) => {
    const [backend, reason] = key.split('\n')
    const names = group.map(({ name, rule }) => rule?.rule ?? name)
    return wrap(`  ${backend}: ${group.length} untested: ${reason} (${names.join(', ')})`)
  })
  return lines.length > 0 ? [['Untested', ...lines].join('\n')] : []
}

function wrap(text: string): string {
  const lines = ['']
  for (const word of text.split(/(?<=\S) /)) {
    const line = lines.at(-1) ?? ''
    if (line === '') lines[lines.length - 1] = word
    else if (line.length + 1 + word.length <= LINE_WIDTH) lines[lines.length - 1] = `${line} ${word}`
    else lines.push(`    ${word}`)
  }
  return lines.join('\n')
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group) group.push(item)
    else groups.set(key, [item])
  }
  return groups
}

function belongsToRule(outcome: Outcome): outcome is RuleOutcome {
  return outcome.rule !== undefined
}
