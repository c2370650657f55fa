/**
 * @typedef {{ nextMs?: number, knownMs?: number, backMs?: number, kept?: boolean }} Observation
 * @typedef {{ backend: string, leaseMs: number, measured: Record<string, Observation[]> }} Measured
 * @typedef {{ node: string, date: string, backends: Measured[] }} Behaviour
 */

/** Every backend of the table, in its order, with the package it belongs to. */
export const backends = new Map([
  ['cas-file', 'cas'],
  ['cas-redis', 'cas'],
  ['redis', 'redis'],
  ['redlock-3', 'redlock'],
  ['zookeeper', 'zookeeper'],
  ['postgres-unique-key', 'postgres'],
  ['postgres-row', 'postgres'],
  ['mysql-unique-key', 'mysql'],
  ['mysql-row', 'mysql'],
  ['mysql-named', 'mysql'],
])

/** Column by column: the situation, its heading, and what a cell says. */
const columns = new Map([
  ['holder-crashes', 'holder killed'],
  ['holder-pauses', 'holder stopped'],
  ['holder-returns-within', 'cut off, back in time'],
  ['holder-returns-after', 'cut off for longer'],
  ['holder-restarts', 'holder restarted'],
  ['waiter-disconnects', 'waiter cut off'],
  ['waiter-dies', 'waiter killed'],
])

/**
 * A line for every backend; or, for a few of them, a column for each.
 *
 * @param {readonly Measured[]} measured
 * @param {'lines' | 'columns'} [as]
 */
export function renderTable(measured, as = 'lines') {
  const rows = measured.map(({ backend, leaseMs, measured: situations }) => [
    `\`${backend}\``,
    duration(leaseMs),
    ...[...columns.keys()].map((id) => renderCell(id, situations[id])),
  ])
  const table = [['backend', 'lease', ...columns.values()], ...rows]
  const [head = [], ...lines] = as === 'lines' ? table : turned(table)
  return [head, head.map(() => '---'), ...lines].map((row) => `| ${row.join(' | ')} |`).join('\n')
}

/** @param {Behaviour} behaviour */
export function renderOrigin({ node, date, backends: all }) {
  const rounds = Math.min(
    ...all.flatMap(({ measured }) => Object.values(measured).map(({ length }) => length)),
  )
  return `At least ${rounds} rounds of each, the last ones on ${date} with Node ${node}.`
}

/** @param {readonly (readonly string[])[]} table */
function turned(table) {
  return (table[0] ?? []).map((_, column) => table.map((row) => row[column] ?? ''))
}

/**
 * @param {string} id
 * @param {readonly Observation[] | undefined} rounds
 */
function renderCell(id, rounds) {
  if (rounds === undefined) return 'no connection'
  const kept = rounds.filter((round) => round.kept).length
  if (kept === rounds.length) return 'keeps it'
  const parts = [
    ...(kept > 0 ? [`keeps it ${kept} of ${rounds.length} times`] : []),
    ...(kept === 0 && id === 'holder-returns-within' ? ['loses it'] : []),
    ...times(
      'knows',
      rounds.map(({ knownMs }) => knownMs),
    ),
    ...times(
      'next',
      rounds.map(({ nextMs }) => nextMs),
    ),
    ...times(
      'itself',
      rounds.map(({ backMs }) => backMs),
    ),
  ]
  return parts.join('<br>')
}

/**
 * The median, and the slowest where it stands out.
 *
 * @param {string} word
 * @param {readonly (number | undefined)[]} values
 */
function times(word, values) {
  const sorted = values.filter((value) => value !== undefined).toSorted((a, b) => a - b)
  const [median, slowest] = [sorted[Math.floor(sorted.length / 2)], sorted.at(-1)]
  if (median === undefined || slowest === undefined) return []
  const outlier = slowest > median * 1.25 + 25 ? ` (${duration(slowest)})` : ''
  return [`${word}\u00a0${duration(median)}${outlier}`]
}

/** @param {number} ms */
function duration(ms) {
  return ms < 1_000 ? `${Math.max(1, Math.round(ms))}\u00a0ms` : `${(ms / 1_000).toFixed(1)}\u00a0s`
}
