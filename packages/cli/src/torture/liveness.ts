import type { FaultKind } from './faults.ts'
import type { TortureOptions } from './options.ts'
import type { Verdict } from './verdict.ts'
import type { Violation } from './violation.ts'

export function tasksOf(processes: readonly string[], tasks: number): readonly string[] {
  return processes.flatMap((process) => Array.from({ length: tasks }, (_, n) => `${process}/t${n + 1}`))
}

/** Every worker must report only documented errors and stop when asked to, and no name may stay held. */
export function checkEnd(wrong: readonly string[], left: readonly string[]): readonly Violation[] {
  const found = (check: string) => (message: string) => ({ check, message, events: [] })
  return [...wrong.map(found('worker')), ...left.map(found('left held'))]
}

/** Every task must be granted a lock after the last fault. `moved` names those that were. */
export function checkProgress(
  alive: readonly string[],
  moved: ReadonlySet<string>,
  tasks: number,
): readonly Violation[] {
  return tasksOf(alive, tasks)
    .filter((task) => !moved.has(task))
    .map((task) => ({ check: 'progress', message: `${task} got no lock after the last fault`, events: [] }))
}

/** A run with fewer grants shows nothing; on a slow machine it runs longer. */
export function leastGrants({
  forMs,
  processes,
  tasks,
}: Pick<TortureOptions, 'forMs' | 'processes' | 'tasks'>): number {
  return processes * tasks * Math.max(2, Math.floor(forMs / 30_000))
}

/** A run with few grants, or without the requested faults, shows nothing. */
export function checkSubstance(
  { grants, contendedWaits, busy, timeouts }: Verdict,
  happened: Readonly<Record<string, number>>,
  faults: readonly FaultKind[],
  { forMs, processes, tasks, serverFaults = [] }: TortureOptions,
): readonly Violation[] {
  const floor = leastGrants({ forMs, processes, tasks })
  const found: string[] = []
  if (grants < floor) found.push(`only ${grants} grants; fewer than ${floor} show nothing`)
  if (contendedWaits + busy + timeouts === 0 && processes * tasks > 1)
    found.push('no acquire met another holder')
  // With this many faults, each kind must have occurred.
  const missing = faults.filter((kind) => happened[kind] === undefined)
  const count = faults.reduce((sum, kind) => sum + (happened[kind] ?? 0), 0)
  if (count >= faults.length * 15 && missing.length > 0)
    found.push(`these faults never happened: ${missing.join(', ')}`)
  if (Object.keys(happened).length === 0 && faults.length + serverFaults.length > 0)
    found.push('no fault happened; run for longer')
  return found.map((message) => ({ check: 'too little happened', message, events: [] }))
}
