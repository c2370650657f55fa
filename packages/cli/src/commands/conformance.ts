import { isRecord } from '@locks/core/adapter'
import { writeFile } from 'node:fs/promises'
import type { Arguments } from '../arguments.ts'
import { openBackend } from '../backend.ts'
import type { Command } from '../command.ts'
import { againCommand } from '../conformance/again.ts'
import { count } from '../conformance/outcome.ts'
import { progress } from '../conformance/progress.ts'
import { runSuite } from '../conformance/run-suite.ts'
import { leftText, textReport } from '../conformance/text-report.ts'
import type { CaseInfo } from '../conformance/case-info.ts'
import { UsageError } from '../errors.ts'
import { exitCodes } from '../exit-codes.ts'
import { readJsonFile } from '../json-file.ts'
import type { Invocation } from '../invocation.ts'
import { isUrl } from '../url.ts'

export const conformance: Command = {
  usage: 'MODULE_OR_URL [options]',
  about: `Runs the conformance suite against any adapter, without test code. The target is a URL; or a package,
directory or file that exports fromConfig, as every adapter does, or subject: a Subject of @locks/core/conformance or
a function that returns one. A subject can also provide its server and its connections, so that more rules can run.
If a URL names one server, the rules also run through a proxy that cuts and delays connections. The suite kills and
pauses its own processes and uses locks whose names contain "conformance:" and, for the rule NAME-2, __proto__,
constructor, toString, ., .., /, 0 and null. It touches no other lock. When it ends,
also after Ctrl-C, it drops what the store keeps of these names; if a store cannot, it reports how many are left and
why. A rule that misses a time limit because the
machine stalled is void and runs again, up to three runs in total; the report lists them. LOCKS_TEST_SLOW=3 triples
all times, for a slow machine.`,
  options: {
    only: { takes: 'LIST', help: 'areas, rules or prefixes of rule ids: ownership,UNIQ-1,FENCE' },
    options: { takes: 'FILE', help: "a JSON file with the adapter's options, for a module" },
    ttl: {
      takes: 'TIME',
      help: 'length of the leases; the session timeout if the store has sessions; default 1s',
    },
    jobs: {
      takes: 'N',
      help: 'number of rules at a time, each in its own process; default 4',
    },
    html: { takes: 'FILE', help: 'write a page with the results and timelines of the contended holds' },
  },
  examples: [
    'locks conformance ./my-adapter --options my-options.json',
    'locks conformance redis://localhost --html report.html',
    "locks conformance 'zookeeper://localhost?sessionTimeoutMs=4s' --ttl 4s",
    'locks conformance ./my-adapter --only ownership --json',
  ],

  async run(args, invocation) {
    const [target = ''] = args.named('MODULE_OR_URL')
    const jobs = args.integer('jobs', [1, 64]) ?? 4
    const ttlMs = args.durationMs('ttl', ['10ms', '24h'])
    const order = { target, options: await optionsOf(args), ...(ttlMs !== undefined && { ttlMs }) }
    const only = args.text('only')
    const html = args.text('html')
    if (isUrl(target)) await askServer(target, invocation)
    if (html !== undefined) await beginReport(html)
    const { info, outcomes, left } = await runSuite(
      order,
      jobs,
      (cases) => select(cases, only),
      (total) => progress(total, invocation),
      invocation,
    )
    const { failed, passed } = count(outcomes)
    const again = againBy(args, target)
    if (html !== undefined) {
      const { htmlReport } = await import('../conformance/html-report.ts')
      await writeFile(html, htmlReport(info, outcomes, again))
    }
    if (args.flag('json')) {
      // Thousands of events, only for the timelines.
      const shown = outcomes.map((one) => ({ ...one, history: undefined }))
      invocation.printJson({ ...info, ...count(outcomes), left, outcomes: shown })
    } else {
      invocation.print(textReport(info, outcomes, again, invocation.paint))
      for (const one of left) invocation.print(`\n${leftText(one)}`)
      if (html !== undefined) invocation.print(`\nReport: ${html}`)
    }
    return failed > 0 || passed === 0 ? exitCodes.failure : exitCodes.ok
  },
}

function againBy(args: Arguments, target: string): (id: string) => string {
  const [options, ttl] = [args.text('options'), args.text('ttl')]
  const given = { target, ...(options !== undefined && { options }), ...(ttl !== undefined && { ttl }) }
  return (id) => againCommand(given, id)
}

/** Checks that the file can be written before a run of minutes. */
async function beginReport(file: string): Promise<void> {
  try {
    await writeFile(file, '', { flag: 'a' })
  } catch (error) {
    throw new UsageError(`cannot write --html ${file}: ${error instanceof Error ? error.message : ''}`)
  }
}

/** An unreachable server would fail every rule after its time limit, and say nothing about the adapter. */
async function askServer(url: string, invocation: Invocation): Promise<void> {
  const locks = await openBackend(invocation, { config: url })
  await locks.inspect('conformance:reach')
  await locks.close()
}

function select(cases: readonly CaseInfo[], only: string | undefined): readonly CaseInfo[] {
  if (only === undefined) return cases
  const wanted = only.split(',').map((word) => word.trim().toLowerCase())
  const matches = ({ id, area }: CaseInfo, word: string): boolean => {
    const rule = id.toLowerCase()
    return area === word || rule === word || rule.startsWith(`${word}-`)
  }
  const stray = wanted.find((word) => !cases.some((one) => matches(one, word)))
  if (stray !== undefined) {
    const areas = [...new Set(cases.map(({ area }) => area))].join(', ')
    throw new UsageError(`--only: unknown rule or area ${JSON.stringify(stray)}; areas: ${areas}`)
  }
  return cases.filter((one) => wanted.some((word) => matches(one, word)))
}

async function optionsOf(args: Arguments): Promise<Readonly<Record<string, unknown>>> {
  const file = args.text('options')
  if (file === undefined) return {}
  const value = await readJsonFile('--options', file)
  if (isRecord(value)) return { ...value }
  throw new UsageError(`--options ${file} must be a JSON object`)
}
