import { table } from '../output.ts'
import type { Paint } from '../output.ts'
import { byArea, count } from './outcome.ts'
import type { Outcome } from './outcome.ts'

const WIDTH = 100

/** The account of a run: areas, then what failed, then what could not be tried. */
export function textReport(outcomes: readonly Outcome[], paint: Paint): string {
  return [
    areas(outcomes, paint),
    ...failures(outcomes, paint),
    ...voids(outcomes, paint),
    ...untested(outcomes, paint),
    total(outcomes, paint),
  ].join('\n\n')
}

function areas(outcomes: readonly Outcome[], paint: Paint): string {
  const rows = [...byArea(outcomes)].map(([area, own]) => {
    const { passed, failed, untested: left } = count(own)
    return [area, ...[passed, failed, left].map((n) => (n === 0 ? '·' : String(n)))]
  })
  return table([['', 'passed', 'failed', 'untested'], ...rows], (cell, column, row) => {
    if (row === 0) return paint('dim', cell)
    if (cell === '·') return paint('dim', cell)
    return column === 2 ? paint('red', cell) : column === 1 ? paint('green', cell) : cell
  })
}

function failures(outcomes: readonly Outcome[], paint: Paint): string[] {
  return outcomes
    .filter(({ state }) => state === 'failed')
    .map(({ id, promise, reason = '' }) => {
      const lines = reason.trimEnd().split('\n')
      const shown = lines.length > 30 ? [...lines.slice(0, 30), `… ${lines.length - 30} more lines`] : lines
      return [
        `${paint('red', '✗')} ${paint('bold', id)} ${promise}`,
        ...shown.map((line) => `    ${line}`),
      ].join('\n')
    })
}

/** What was tried again because the machine stood still. */
function voids(outcomes: readonly Outcome[], paint: Paint): string[] {
  const lines = outcomes.flatMap(({ id, voids: own = [] }) => own.map((why) => wrap(`  ${id}: ${why}`)))
  return lines.length > 0 ? [[paint('bold', 'Void runs, tried again'), ...lines].join('\n')] : []
}

function untested(outcomes: readonly Outcome[], paint: Paint): string[] {
  const reasons = new Map<string, string[]>()
  for (const { state, id, reason = '' } of outcomes)
    if (state === 'untested') reasons.set(reason, [...(reasons.get(reason) ?? []), id])
  if (reasons.size === 0) return []
  const lines = [...reasons].map(([reason, ids]) => wrap(`  ${reason}: ${ids.join(' ')}`))
  return [[paint('bold', 'Untested'), ...lines].join('\n')]
}

function total(outcomes: readonly Outcome[], paint: Paint): string {
  const { passed, failed, untested: left } = count(outcomes)
  const failing = `${failed} failed`
  return `${passed} passed, ${failed > 0 ? paint('red', failing) : failing}, ${left} untested`
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
