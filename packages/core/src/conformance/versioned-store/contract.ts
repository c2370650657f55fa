import type { VersionedStore } from '../../adapter/versioned-store.ts'
import { slowFactor } from '../case-run.ts'
import type { ConformanceCase } from '../conformance.ts'
import { untilValid } from '../time/void-runs.ts'
import { Bench } from './bench.ts'
import { processRules } from './process-rules.ts'
import type { StoreRule } from './rule.ts'
import { rules } from './rules.ts'
import type { StoreSubject } from './subject.ts'

/** A rule applied to a store, ready for any test runner, as a case of the conformance suite. */
export type ContractCase = Pick<ConformanceCase, 'id' | 'title' | 'untested' | 'timeoutMs' | 'run'>

const USUAL_MS = 10_000

/** The contract of a versioned store, as data. Cases are independent and may run in any order. */
export function versionedStoreContract(subject: StoreSubject): readonly ContractCase[] {
  const store = subject.open()
  void store.close()
  return [...rules, ...processRules].map((rule) => {
    const { id } = rule
    const untested = whyUntested(rule, subject, store)
    const ruleMs = (rule.timeoutMs ?? USUAL_MS) * slowFactor()
    const limit = { ms: ruleMs, from: `the time-out of ${id}` }
    const runOnce: ContractCase['run'] = (host) =>
      new Bench(subject).run((bench) => rule.run(bench), host, limit)
    return {
      id,
      title: `${id} ${rule.title}`,
      timeoutMs: ruleMs * 12,
      ...(untested !== undefined && { untested }),
      run: (host) => untilValid(() => runOnce(host), host?.onVoid),
    }
  })
}

function whyUntested({ needs }: StoreRule, subject: StoreSubject, store: VersionedStore): string | undefined {
  if (needs === 'drop' && subject.drop === undefined) return 'no way to delete a key was given'
  if (needs === 'watch' && store.watch === undefined) return 'the store has no change signal'
  if (needs === 'values' && store.values === undefined) return 'the store cannot list its values'
  if (needs !== 'processes') return undefined
  if (store.scope === 'process') return 'scope is process'
  return subject.module === undefined ? 'no module was given for other processes' : undefined
}
