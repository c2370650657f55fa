import { showDuration } from '../duration.ts'
import { table } from '../output.ts'
import type { Paint } from '../output.ts'
import { byArea, count } from './outcome.ts'
import type { Outcome, RunInfo, State } from './outcome.ts'
import type { Left } from './tidy.ts'

const WIDTH = 100

/** The report of a run: areas, failures, then the rules that did not run and why. */
export function textReport(
  info: RunInfo,
  outcomes: readonly Outcome[],
  again: (id: string) => string,
  paint: Paint,
): string {
  return [
    areas(outcomes, paint),
    ...failures(outcomes, again, paint),
    ...voids(outcomes, paint),
    ...left(outcomes, 'not applicable', 'Not applicable: the adapter does not claim the capability', paint),
    ...left(outcomes, 'not tried', 'Not tried: this run lacks what the rule needs', paint),
    `${total(outcomes, paint)}\n${paint('dim', circumstances(info))}`,
  ].join('\n\n')
}

/** What the store could not drop of the names that were used. */
export function leftText({ names, why }: Left): string {
  return `left in the store: ${names} ${names === 1 ? 'name' : 'names'} that the suite used; ${why}`
}

/** The conditions of the run, in every report. */
export function circumstances({ node, ttlMs, jobs }: RunInfo): string {
  const ttl = `ttl ${showDuration(ttlMs)} or the store's minimum`
  return `Node ${node}, ${ttl}, ${jobs} ${jobs === 1 ? 'rule' : 'rules'} at a time`
}

function areas(outcomes: readonly Outcome[], paint: Paint): string {
  const rows = [...byArea(outcomes)].map(([area, own]) => {
    const { passed, failed, notApplicable, notTried } = count(own)
    return [area, ...[passed, failed, notApplicable, notTried].map((n) => (n === 0 ? '·' : String(n)))]
  })
  const head = ['', 'passed', 'failed', 'not applicable', 'not tried']
  return table([head, ...rows], (cell, column, row) => {
    if (row === 0 || cell === '·') return paint('dim', cell)
    return column === 2 ? paint('red', cell) : column === 1 ? paint('green', cell) : cell
  })
}

function failures(outcomes: readonly Outcome[], again: (id: string) => string, paint: Paint): string[] {
  return outcomes
    .filter(({ state }) => state === 'failed')
    .map(({ id, promise, reason = '' }) => {
      const lines = reason.trimEnd().split('\n')
      const shown = lines.length > 30 ? [...lines.slice(0, 30), `… ${lines.length - 30} more lines`] : lines
      return [
        `${paint('red', '✗')} ${paint('bold', id)} ${promise}`,
        ...shown.map((line) => `    ${line}`),
        `    Run it alone: ${paint('cyan', again(id))}`,
      ].join('\n')
    })
}

/** The runs that were repeated because the machine stalled. */
function voids(outcomes: readonly Outcome[], paint: Paint): string[] {
  const lines = outcomes.flatMap(({ id, voids: own = [] }) => own.map((why) => wrap(`  ${id}: ${why}`)))
  return lines.length > 0 ? [[paint('bold', 'Void runs, repeated'), ...lines].join('\n')] : []
}

function left(outcomes: readonly Outcome[], state: State, title: string, paint: Paint): string[] {
  const reasons = new Map<string, string[]>()
  for (const { state: own, id, reason = '' } of outcomes)
    if (own === state) reasons.set(reason, [...(reasons.get(reason) ?? []), id])
  if (reasons.size === 0) return []
  const lines = [...reasons].map(([reason, ids]) => wrap(`  ${reason}: ${ids.join(' ')}`))
  return [[paint('bold', title), ...lines].join('\n')]
}

function total(outcomes: readonly Outcome[], paint: Paint): string {
  const { passed, failed, notApplicable, notTried } = count(outcomes)
  const failing = failed > 0 ? paint('red', `${failed} failed`) : `${failed} failed`
  return `${passed} passed, ${failing}, ${notApplicable} not applicable, ${notTried} not tried`
}

function wrap(text: string): string {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/(?<=\S) /)) {
    if (line !== '' && line.length + 1 + word.length > WIDTH) {
      lines.push(line)
      line = `    ${word}`
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].join('\n')
}
