import type { Capabilities } from '../adapter/capabilities.ts'
import { systemClock } from '../adapter/time.ts'
import { loadAdapter } from '../config/open.ts'
import type { AdapterFactory } from '../adapter/spi.ts'
import { slowFactor } from './case-run.ts'
import type { CaseHost } from './case-run.ts'
import { Harness } from './harness.ts'
import type { Area, Need, RuleKind } from './rule.ts'
import { whyUntested } from './rule.ts'
import { rules } from './rules/index.ts'
import { assertSharedStore } from './shared-store.ts'
import { lastingConfig } from './subject.ts'
import type { Subject } from './subject.ts'
import { isVoidRun } from './time/bounds.ts'
import { untilValid } from './time/void-runs.ts'

/** A rule applied to a subject, ready for any test runner. */
export interface ConformanceCase {
  readonly id: string
  readonly area: Area
  /** Kind, id and promise in one line. */
  readonly title: string
  readonly kind: RuleKind
  /** Why this rule cannot run here. Show it; do not count the rule as passed. */
  readonly untested?: string
  /** False when the adapter does not claim what the rule is about. Untested and applicable: it was not run. */
  readonly applicable: boolean
  /** Cases without this may run concurrently in one process. */
  readonly alone: boolean
  /** Longer than all its runs can take, for a test runner that ends a stuck process. The case has its own bounds. */
  readonly timeoutMs: number
  /** Rejects with an assertion error when the promise is broken. */
  readonly run: (host?: CaseHost) => Promise<void>
}

const USUAL_MS = 30_000

/** Whether a rule that needs this disturbs others at the same store. */
const disturbs = (need: Need): boolean => need === 'server' || need === 'restart'

/** The whole suite for one adapter, as data. Cases are independent and may run in any order. */
export async function conformance(subject: Subject): Promise<readonly ConformanceCase[]> {
  const factory = subject.adapter ?? (await loadAdapter(subject.config))
  const lasting = subject.adapter ?? (await loadAdapter(lastingConfig(subject, subject.config)))
  const capabilities = await capabilitiesOf(factory)
  const cases: ConformanceCase[] = []
  let shared: Promise<void> | undefined
  /** Once, when a rule has failed for a reason that this may explain. */
  const checkStore = (harness: Harness): Promise<void> =>
    (shared ??= assertSharedStore(
      lastingConfig(subject, subject.config),
      harness.name('shared'),
      harness.lastingMs,
    ))
  for (const [area, areaRules] of rules)
    for (const rule of areaRules) {
      const { id, kind } = rule
      const gap = whyUntested(rule, subject, capabilities)
      const ruleMs = (rule.timeoutMs ?? USUAL_MS) * slowFactor()
      const runOnce = async (host?: CaseHost): Promise<void> => {
        const harness = new Harness(subject, factory, capabilities, lasting)
        const limit = { ms: ruleMs, from: `the time-out of ${id}` }
        try {
          await harness.run((self) => rule.run(self), host, limit)
        } catch (error) {
          const ended = isVoidRun(error) || host?.signal?.aborted === true
          if (subject.adapter === undefined && !ended) await checkStore(harness)
          throw error
        }
      }
      cases.push({
        id,
        area,
        kind,
        title: `${id} ${rule.title} [${gap === undefined ? kind : 'untested'}]`,
        alone: rule.alone ?? (rule.needs?.some(disturbs) === true || (rule.timeoutMs ?? 0) > USUAL_MS),
        timeoutMs: ruleMs * 12,
        applicable: gap?.applicable ?? true,
        ...(gap !== undefined && { untested: gap.reason }),
        run: (host) => untilValid(() => runOnce(host), host?.onVoid),
      })
    }
  return cases
}

async function capabilitiesOf(factory: AdapterFactory): Promise<Capabilities> {
  const adapter = factory({ clientId: 'conformance', clock: systemClock, report: () => undefined })
  await adapter.close?.()
  return adapter.capabilities
}
