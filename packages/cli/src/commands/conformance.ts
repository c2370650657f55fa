import { writeFile } from 'node:fs/promises'
import type { Arguments } from '../arguments.ts'
import { openBackend } from '../backend.ts'
import type { Command } from '../command.ts'
import { againCommand } from '../conformance/again.ts'
import { count } from '../conformance/outcome.ts'
import { progress } from '../conformance/progress.ts'
import { runSuite } from '../conformance/run-suite.ts'
import { leftText, textReport } from '../conformance/text-report.ts'
import type { CaseInfo } from '../conformance/worker-protocol.ts'
import { UsageError } from '../errors.ts'
import { exitCodes } from '../exit-codes.ts'
import { readJsonFile } from '../json-file.ts'
import type { Session } from '../session.ts'
import { isUrl } from '../url.ts'

export const conformance: Command = {
  usage: 'MODULE_OR_URL [options]',
  about: `Runs the conformance suite against any adapter, without test code: a backend's URL; a package, directory or
file that exports fromConfig, as every adapter does; or one that exports subject, a Subject of
@locks/core/conformance or a function that makes one, which can also offer its server and its wire, so that more
rules can be tried. A URL that names one server is also tried through a proxy that cuts and delays connections. The suite kills and pauses processes of its own and takes locks whose names contain
"conformance:" and, for the rule NAME-2, __proto__, constructor, toString, ., .., /, 0 and null. It touches no
other lock, and drops what the store keeps of these names when it ends, also after Ctrl-C; where a store cannot, it says
how many are left and why. A rule whose bound of time was missed because the machine stood still is void and runs again, three times
in all; the report lists such runs. LOCKS_TEST_SLOW=3 gives a slow machine three times as long.`,
  options: {
    only: { takes: 'LIST', help: 'areas, rules or the beginning of their ids: ownership,UNIQ-1,FENCE' },
    options: { takes: 'FILE', help: "a JSON file with the adapter's options, for a module" },
    ttl: {
      takes: 'TIME',
      help: 'lease to work with, as long as the session where the store has one; default 1s',
    },
    jobs: {
      takes: 'N',
      help: 'rules at a time, each in a process of its own; default 4',
    },
    html: { takes: 'FILE', help: 'write a page with the matrix and pictures of the contended holds' },
  },
  examples: [
    'locks conformance ./my-adapter --options my-options.json',
    'locks conformance redis://localhost --html report.html',
    "locks conformance 'zookeeper://localhost?sessionTimeoutMs=4s' --ttl 4s",
    'locks conformance ./my-adapter --only ownership --json',
  ],

  async run(args, session) {
    const [target = ''] = args.named('MODULE_OR_URL')
    const jobs = args.integer('jobs', [1, 64]) ?? 4
    const ttlMs = args.durationMs('ttl', ['10ms', '24h'])
    const order = { target, options: await optionsOf(args), ...(ttlMs !== undefined && { ttlMs }) }
    const only = args.text('only')
    const html = args.text('html')
    if (isUrl(target)) await askServer(target, session)
    if (html !== undefined) await beginReport(html)
    const { info, outcomes, left } = await runSuite(
      order,
      jobs,
      (cases) => select(cases, only),
      (total) => progress(total, session),
      session,
    )
    const { failed, passed } = count(outcomes)
    const again = againBy(args, target)
    if (html !== undefined) {
      const { htmlReport } = await import('../conformance/html-report.ts')
      await writeFile(html, htmlReport(info, outcomes, again))
    }
    if (args.flag('json')) {
      // Thousands of events, for pictures only.
      const shown = outcomes.map((one) => ({ ...one, history: undefined }))
      session.printJson({ ...info, ...count(outcomes), left, outcomes: shown })
    } else {
      session.print(textReport(info, outcomes, again, session.paint))
      for (const one of left) session.print(`\n${leftText(one)}`)
      if (html !== undefined) session.print(`\nThe report is in ${html}`)
    }
    return failed > 0 || passed === 0 ? exitCodes.failure : exitCodes.ok
  },
}

function againBy(args: Arguments, target: string): (id: string) => string {
  const [options, ttl] = [args.text('options'), args.text('ttl')]
  const given = { target, ...(options !== undefined && { options }), ...(ttl !== undefined && { ttl }) }
  return (id) => againCommand(given, id)
}

/** Before the minutes that a run may take. */
async function beginReport(file: string): Promise<void> {
  try {
    await writeFile(file, '', { flag: 'a' })
  } catch (error) {
    throw new UsageError(`cannot write --html ${file}: ${error instanceof Error ? error.message : ''}`)
  }
}

/** One that is away would fail every rule, each after its time: no verdict on the adapter. */
async function askServer(url: string, session: Session): Promise<void> {
  const locks = await openBackend(session, { config: url })
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
    throw new UsageError(`--only: no rule or area is called ${JSON.stringify(stray)}; areas: ${areas}`)
  }
  return cases.filter((one) => wanted.some((word) => matches(one, word)))
}

async function optionsOf(args: Arguments): Promise<Readonly<Record<string, unknown>>> {
  const file = args.text('options')
  if (file === undefined) return {}
  const value = await readJsonFile('--options', file)
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
  throw new UsageError(`--options ${file} must be a JSON object`)
}
