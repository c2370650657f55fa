import type { Outcome } from './outcome.ts'

const SLOWEST = 10

/** What a run took: seconds per project, all its tests together, and the slowest rules. */
export function renderTimes(outcomes: readonly Outcome[]): string[] {
  const projects = new Map<string, number>()
  for (const { project, durationMs = 0 } of outcomes)
    if (project !== undefined) projects.set(project, (projects.get(project) ?? 0) + durationMs)
  if (projects.size === 0) return []
  const sums = [...projects].toSorted(([, a], [, b]) => b - a).map(([name, ms]) => `${name} ${seconds(ms)}`)
  const slowest = outcomes
    .flatMap(({ rule, durationMs = 0 }) => (rule === undefined ? [] : [{ rule, durationMs }]))
    .toSorted((a, b) => b.durationMs - a.durationMs)
    .slice(0, SLOWEST)
    .map(({ rule, durationMs }) => `${rule.backend} ${rule.rule} ${seconds(durationMs)}`)
  return [
    `Seconds of tests per project, many at a time\n  ${sums.join(' · ')}`,
    ...(slowest.length > 0 ? [`Slowest rules\n  ${slowest.join(' · ')}`] : []),
  ]
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(1)
}
