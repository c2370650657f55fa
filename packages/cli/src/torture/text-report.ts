import { showDuration } from '../duration.ts'
import { printable, table, toJson } from '../output.ts'
import type { Paint } from '../output.ts'
import type { TortureResult } from './options.ts'
import type { Violation } from './verdict.ts'

const MOST_SHOWN = 10
const MOST_LINES = 12

/** The report of a run: the counts, the violations, and the seed. */
export function textReport(result: TortureResult, paint: Paint): string {
  const { violations, withinBound, warnings, seed, recoveryMs, faults } = result
  const rows = [
    ['grants', `${result.grants}, of which ${result.contendedWaits} after a wait for another holder`],
    ['not granted', `${result.busy} without a wait, ${result.timeouts} after a wait`],
    ['faults', countsOf(faults)],
    ['lost leases', `${result.losses} noticed by their holder, ${result.refusedWrites} stale writes refused`],
    ['recovery', `p50 ${showDuration(recoveryMs.p50)}, longest ${showDuration(recoveryMs.max)}`],
  ]
  const bound = `overlaps within the documented bound of this backend (a connection broke; at most one lease)`
  return [
    table(rows, (cell, column) => (column === 0 ? paint('dim', cell) : cell)),
    ...(warnings.length === 0 ? [] : [['Node.js warnings in workers', ...warnings.slice(0, 5)].join('\n  ')]),
    ...(withinBound.length === 0 ? [] : [`${paint('yellow', String(withinBound.length))} ${bound}`]),
    ...violations.slice(0, MOST_SHOWN).map((one) => show(one, paint)),
    ...(violations.length > MOST_SHOWN ? [`… and ${violations.length - MOST_SHOWN} more violations`] : []),
    violations.length === 0
      ? `${paint('green', 'no violation')}${result.interrupted ? ' before the interruption' : ''}, seed ${seed}`
      : `${paint('red', countOf(violations.length))}, seed ${seed}`,
  ].join('\n\n')
}

export function countOf(violations: number): string {
  return violations === 1 ? '1 violation' : `${violations} violations`
}

export function countsOf(faults: Readonly<Record<string, number>>): string {
  const counts = Object.entries(faults).map(([kind, count]) => `${count} ${kind}`)
  return counts.length === 0 ? 'none' : counts.join(', ')
}

function show({ check, message, events }: Violation, paint: Paint): string {
  const lines = events.slice(0, MOST_LINES).map((event) => `    ${printable(toJson(event))}`)
  const text = message.split('\n').map(printable).join('\n    ')
  return [`${paint('red', '✗')} ${paint('bold', check)}: ${text}`, ...lines].join('\n')
}
