import type { Invocation } from '../invocation.ts'
import { leftOut } from './outcome.ts'
import type { Outcome, RunInfo } from './outcome.ts'
import type { Progress } from './progress.ts'
import { leftText } from './text-report.ts'
import type { Left } from './tidy.ts'
import { startWorker } from './start-worker.ts'
import type { Worker } from './start-worker.ts'
import type { CaseInfo, WorkerOrder } from './worker-protocol.ts'

export interface SuiteRun {
  readonly info: RunInfo
  readonly outcomes: readonly Outcome[]
  /** What stays in the store of the names that were used. */
  readonly left: readonly Left[]
}

/** Runs the cases that `select` returns, `jobs` at a time, each in its own process. */
export async function runSuite(
  order: WorkerOrder,
  jobs: number,
  select: (cases: readonly CaseInfo[]) => readonly CaseInfo[],
  watch: (total: number) => Progress,
  invocation: Invocation,
): Promise<SuiteRun> {
  let say = (line: string, rule = 'start'): void => invocation.note(`[${rule}] ${line}`)
  const names = new Set<string>()
  const start = (): Promise<Worker> =>
    startWorker(order, {
      onClose: (close) => invocation.onEnd(close),
      onOutput: (line, rule) => say(line, rule),
      onName: (name) => names.add(name),
    })
  /** By a process that is there, or else, after an interruption, by a new one. */
  async function tidy(worker?: Worker): Promise<readonly Left[]> {
    const used = [...names]
    names.clear()
    if (used.length === 0) return []
    const tidier = worker?.alive === true ? worker : await start()
    const left = await tidier.tidy(used)
    await tidier.close()
    return left
  }
  // The first to be registered is the last to run: by then no rule runs any more.
  invocation.onEnd(async () => {
    for (const one of await tidy()) invocation.note(leftText(one))
  })
  const first = await start()
  const cases = select(first.cases)
  const progress = watch(cases.length)
  say = (line, rule) => progress.said(line, rule)
  invocation.onEnd(async () => progress.over())
  const outcomes = new Map<string, Outcome>()
  const note = (outcome: Outcome): void => {
    outcomes.set(outcome.id, outcome)
    progress.ended(outcome)
  }
  for (const one of cases) {
    const left = leftOut(one)
    if (left !== undefined) note(left)
  }

  const todo = cases.filter(({ id }) => !outcomes.has(id))
  // The longest cases are also the heaviest: one worker starts with them, so that they run one at a time and not last.
  const usual = Math.min(...todo.map(({ timeoutMs }) => timeoutMs))
  const heavy = todo.filter(({ timeoutMs }) => timeoutMs > usual)
  const light = todo.filter(({ timeoutMs }) => timeoutMs <= usual)
  async function work(given?: Worker): Promise<void> {
    let worker = given ?? (await start())
    const next = (): CaseInfo | undefined =>
      given === undefined ? (light.shift() ?? heavy.shift()) : (heavy.shift() ?? light.shift())
    for (let one = next(); one !== undefined; one = next()) {
      invocation.signal.throwIfAborted()
      if (!worker.alive) worker = await start()
      progress.begins(one.id, one.promise)
      const outcome = await worker.run(one)
      // An interrupted case has not failed.
      invocation.signal.throwIfAborted()
      note(outcome)
    }
    if (worker !== first) await worker.close()
  }
  const more = Math.min(jobs, todo.length) - 1
  await Promise.all([work(first), ...Array.from({ length: Math.max(0, more) }, () => work())])
  progress.over()
  const { subject, ttlMs, lasts } = first
  if (!lasts) names.clear()
  const left = await tidy(first)
  await first.close()
  return {
    left,
    info: { subject, node: process.version, ttlMs, jobs },
    outcomes: cases.flatMap(({ id }) => outcomes.get(id) ?? []),
  }
}
