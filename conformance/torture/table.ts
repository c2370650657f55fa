import type { TortureResult } from '../../packages/cli/dist/torture/options.js'

const heads = [
  'backend',
  'grants',
  'after a wait',
  'not granted',
  'lost',
  'faults',
  'violations',
  'within the bound',
  'recovery p50 / max',
]

/** What was counted, as a table in Markdown. */
export function tableOf(backends: readonly string[], results: ReadonlyMap<string, TortureResult>): string {
  const rows = backends.map((name) => {
    const one = results.get(name)
    if (one === undefined) return [name, ...heads.slice(1).map(() => 'did not run')]
    const faults = Object.entries(one.faults).map(([kind, count]) => `${kind} ${count}`)
    const { p50, max } = one.recoveryMs
    return [
      name,
      one.grants,
      one.contendedWaits,
      one.busy + one.timeouts,
      one.losses,
      faults.join(', '),
      one.violations.length,
      one.withinBound.length,
      `${Math.round(p50)} / ${Math.round(max)} ms`,
    ]
  })
  return [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}
