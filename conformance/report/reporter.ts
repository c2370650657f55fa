import { writeFileSync } from 'node:fs'
import type { InlineConfig, Reporter, TestCase, TestModule, TestSuite, Vitest } from 'vitest/node'
import type { SerializedError } from 'vitest'
import { count, rulesOf, type Outcome } from './outcome.ts'
import { renderTimes } from './times.ts'
import { renderFailures, renderReport } from './table.ts'

/**
 * Accounts for every test of a run. `npm test` names a file in LOCKS_TEST_SUMMARY and prints the
 * account itself, last of all; without it the account goes to the terminal. What became of every rule is
 * kept in the file that LOCKS_TEST_RULES names, for `scripts/matrix.mjs`.
 */
export class ConformanceReporter implements Reporter {
  #vitest: Vitest | undefined
  readonly #shown = new Map<string, number>()
  readonly #leftBehind: UnhandledError[] = []

  onInit(vitest: Vitest): void {
    this.#vitest = vitest
  }

  /** Now and then a line about a backend: which rule, how many of how many. */
  onTestCaseResult(test: TestCase): void {
    const rule = test.meta().locks
    if (rule === undefined) return
    const all = [...test.module.children.allTests()]
    const done = all.filter((one) => one.result().state !== 'pending').length
    // Results come in bunches.
    const tens = done === all.length ? Infinity : Math.floor(done / 10)
    if (tens <= (this.#shown.get(rule.backend) ?? 0)) return
    this.#shown.set(rule.backend, tens)
    process.stderr.write(`locks: ${rule.backend} ${rule.rule}, ${done} of ${all.length} rules\n`)
  }

  /**
   * Whether an unhandled error is a failure by itself. A test that failed, or was void and runs again, does not await
   * what it began, which ends with its clients: only a run without such a test must not leave any.
   */
  isFailure(error: UnhandledError): boolean {
    if (!('code' in error) || error.code !== 'LOCK_CLOSED') return true
    this.#leftBehind.push(error)
    return false
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const filtered = this.#vitest?.getGlobalTestNamePattern() !== undefined
    const tests = modules.flatMap((module) => outcomesOf(module, filtered))
    const isExplained = tests.some(({ state, voids }) => state === 'failed' || voids !== undefined)
    const unhandled = isExplained ? unhandledErrors : [...unhandledErrors, ...this.#leftBehind]
    if (unhandled.length > 0) process.exitCode = 1
    const outcomes = [...tests, ...unhandled.map((error) => failure('unhandled error', error))]
    const table = [renderReport(outcomes), ...renderTimes(outcomes), ...renderFailures(outcomes)].join('\n\n')
    const summaryFile = process.env['LOCKS_TEST_SUMMARY']
    if (summaryFile) writeFileSync(summaryFile, JSON.stringify({ ...count(outcomes), table }))
    else if (outcomes.some(({ rule }) => rule)) console.log(`\n${table}`)
    const rulesFile = process.env['LOCKS_TEST_RULES']
    const rules = rulesOf(outcomes)
    // Interop has a run of its own, without a rule.
    if (rulesFile && rules.length > 0) writeFileSync(rulesFile, JSON.stringify(rules))
  }
}

type UnhandledError = Parameters<NonNullable<InlineConfig['onUnhandledError']>>[0]

function outcomesOf(module: TestModule, filtered: boolean): Outcome[] {
  const suites: (TestModule | TestSuite)[] = [module, ...module.children.allSuites()]
  return [
    // A broken import or hook leaves its tests skipped; the error itself must still count.
    ...suites.flatMap((suite) => suite.errors().map((error) => failure(nameOf(suite), error))),
    ...[...module.children.allTests()].flatMap((test) => outcomeOf(test, filtered)),
  ]
}

function outcomeOf(test: TestCase, filtered: boolean): Outcome[] {
  const rule = test.meta().locks
  const { voids } = test.meta()
  const { evidence } = test.meta()
  const base = {
    name: test.fullName,
    project: test.project.name,
    durationMs: test.diagnostic()?.duration ?? 0,
    ...(rule && { rule }),
    ...(voids && { voids }),
    ...(evidence !== undefined && { evidence }),
  }
  const result = test.result()
  switch (result.state) {
    case 'passed':
      return [{ ...base, state: 'passed' }]
    case 'failed':
      return [{ ...base, state: 'failed', reason: reasonOf(result.errors, voids) }]
    case 'pending':
      return [{ ...base, state: 'failed', reason: 'did not finish' }]
    case 'skipped': {
      const reason = rule?.untested ?? result.note
      if (reason) return [{ ...base, state: 'untested', reason }]
      return filtered ? [] : [{ ...base, state: 'failed', reason: 'skipped without a reason' }]
    }
  }
}

/** Of a test that was void each time, the last error says so; otherwise the first is what went wrong. */
function reasonOf(errors: readonly { readonly message: string }[], voids: readonly string[] = []): string {
  const error = voids.length > 0 ? errors.at(-1) : errors[0]
  return error?.message ?? 'it does not say why'
}

function failure(name: string, { message }: { readonly message: string }): Outcome {
  return { state: 'failed', name, reason: message }
}

function nameOf(suite: TestModule | TestSuite): string {
  return suite.type === 'module' ? suite.relativeModuleId : suite.fullName
}
