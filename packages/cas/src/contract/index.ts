import type { StoreFactory } from '../versioned-store.ts'
import { Bench } from './bench.ts'
import { processRules } from './process-rules.ts'
import type { StoreRule } from './rule.ts'
import { rules } from './rules.ts'

/** What the contract is run against. A rule that cannot run is listed with the reason. */
export interface StoreSubject {
  readonly name: string
  /** Each call opens an independent client of one and the same store. */
  readonly open: StoreFactory
  /** Deletes a key, as an operator might. */
  drop?(key: string): Promise<void>
  /** How another process opens the store: a module that exports `storeFrom(options)`, by name or file URL. */
  readonly module?: StoreModule
}

export interface StoreModule {
  readonly specifier: string
  /** As JSON. */
  readonly options: Readonly<Record<string, unknown>>
}

/** A rule applied to a store, ready for any test runner. */
export interface ContractCase {
  readonly id: string
  readonly title: string
  /** Why this rule cannot be tried here. Show it; do not count it as passed. */
  readonly untested?: string
  readonly timeoutMs: number
  /** Rejects with an assertion error when the promise is broken. */
  readonly run: () => Promise<void>
}

/** The contract of a versioned store, as data. Cases are independent and may run in any order. */
export function versionedStoreContract(subject: StoreSubject): readonly ContractCase[] {
  return [...rules, ...processRules].map((rule) => {
    const untested = whyUntested(rule, subject)
    return {
      id: rule.id,
      title: `${rule.id} ${rule.title}`,
      timeoutMs: (rule.timeoutMs ?? 10_000) * slowFactor(),
      ...(untested !== undefined && { untested }),
      run: () => new Bench(subject).run((bench) => rule.run(bench)),
    }
  })
}

function whyUntested({ needs }: StoreRule, subject: StoreSubject): string | undefined {
  if (needs === 'drop' && subject.drop === undefined) return 'no way to delete a key was given'
  if (needs === 'watch' && subject.open().watch === undefined) return 'the store has no change signal'
  if (needs === 'values' && subject.open().values === undefined) return 'the store cannot tell its values'
  if (needs !== 'processes') return undefined
  if (subject.open().scope === 'process') return 'scope is process'
  return subject.module === undefined ? 'no module was given for other processes' : undefined
}

/** `LOCKS_TEST_SLOW` multiplies every time, as it does for the conformance suite. */
function slowFactor(): number {
  const factor = Number(process.env['LOCKS_TEST_SLOW'] ?? 1)
  return Number.isFinite(factor) && factor >= 1 ? factor : 1
}
