import type { Finding } from './spi.ts'

/** The check found no problem. */
export function ok(check: string, message: string): Finding {
  return { check, level: 'ok', message }
}

/** Locks may fail or be slow. */
export function warning(check: string, message: string, advice: string): Finding {
  return { check, level: 'warning', message, advice }
}

/** Two clients may hold one lock, or a fence may decrease. */
export function danger(check: string, message: string, advice: string): Finding {
  return { check, level: 'danger', message, advice }
}

/** A finding as the text of an error or a warning. Both are clauses: lower case, and no full stop. */
export function inOneLine({ message, advice }: Pick<Finding, 'message' | 'advice'>): string {
  return advice === undefined ? message : `${message}; ${advice}`
}

/** What one check of `diagnose` finds. */
export type Verdict = Omit<Finding, 'check'>

type Advise = (message: string, advice: string) => Verdict

/** As `ok`, `warning` and `danger`, for checks that are run by `findingsOf`. */
export const verdicts: {
  readonly ok: (message: string) => Verdict
  readonly warning: Advise
  readonly danger: Advise
} = {
  ok: (message) => ({ level: 'ok', message }),
  warning: (message, advice) => ({ level: 'warning', message, advice }),
  danger: (message, advice) => ({ level: 'danger', message, advice }),
}

/** Checks by their names. One that does not apply finds nothing. */
export type Checks<Facts, Settings> = Readonly<
  Record<string, (facts: Facts, settings: Settings) => Verdict | undefined>
>

export function findingsOf<Facts, Settings>(
  checks: Checks<Facts, Settings>,
  facts: Facts,
  settings: Settings,
): readonly Finding[] {
  return Object.entries(checks).flatMap(([check, find]) => {
    const verdict = find(facts, settings)
    return verdict === undefined ? [] : [{ check, ...verdict }]
  })
}

const severity = { ok: 0, warning: 1, danger: 2 } as const

/** A finding, and the servers on which a check found nothing worse, by their index. */
export interface WorstFinding {
  readonly finding: Finding
  readonly servers: readonly number[]
}

/** Of what was found on each of several servers, the worst of each check. */
export function worstFindings(all: readonly (readonly Finding[])[]): readonly WorstFinding[] {
  const worst = new Map<string, { readonly finding: Finding; readonly servers: number[] }>()
  all.forEach((findings, server) => {
    for (const finding of findings) {
      const known = worst.get(finding.check)
      const more = known === undefined ? 1 : severity[finding.level] - severity[known.finding.level]
      if (more > 0) worst.set(finding.check, { finding, servers: [server] })
      else if (more === 0) known?.servers.push(server)
    }
  })
  return [...worst.values()]
}
