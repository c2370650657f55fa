/** What a conformance test says of itself, as the `locks` entry of its vitest meta. */
export interface RuleMeta {
  readonly backend: string
  readonly area: string
  readonly rule: string
  /** Why the rule was not tested on this backend. Absent when it was. */
  readonly untested?: string
  /** Of an untested rule: false when the backend does not claim what the rule is about. */
  readonly applicable?: boolean
}

declare module 'vitest' {
  interface TaskMeta {
    locks?: RuleMeta
    /** Runs that were void before the last one, or with it: why. */
    voids?: readonly string[]
    /** The file with what is known about a failure. */
    evidence?: string
  }
}

/** One line of the run's account: a test, or an error outside every test. */
export interface Outcome {
  readonly state: 'passed' | 'failed' | 'untested'
  readonly name: string
  /** Absent for tests that belong to no rule of the suite. */
  readonly rule?: RuleMeta
  /** Why it is untested, or what it failed with. */
  readonly reason?: string
  /** How long it took. */
  readonly durationMs?: number
  /** The project of the test, such as `redis`. */
  readonly project?: string
  readonly evidence?: string
  /** Its void runs. */
  readonly voids?: readonly string[]
}

export interface Counts {
  readonly passed: number
  readonly failed: number
  readonly untested: number
}

export function count(outcomes: readonly Outcome[]): Counts {
  const counts = { passed: 0, failed: 0, untested: 0 }
  for (const { state } of outcomes) counts[state] += 1
  return counts
}

/** What became of each rule on each backend, for the matrix of the documentation. */
export interface RuleOutcome {
  readonly backend: string
  readonly area: string
  readonly rule: string
  readonly state: Outcome['state']
  readonly reason?: string
  readonly applicable?: boolean
}

export function rulesOf(outcomes: readonly Outcome[]): RuleOutcome[] {
  return outcomes.flatMap(({ state, rule, reason }) =>
    rule === undefined
      ? []
      : [
          {
            backend: rule.backend,
            area: rule.area,
            rule: rule.rule,
            state,
            ...(reason !== undefined && { reason }),
            ...(rule.applicable !== undefined && { applicable: rule.applicable }),
          },
        ],
  )
}
