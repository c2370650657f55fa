import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { signalOne } from './guardian/process-tree.mjs'
import { isFree } from './ports.ts'
import { describeFamily } from './test-support/describe-family.ts'
import { expectNoTraces, type Traces } from './test-support/reachability.ts'
import { eventually } from './timing.ts'

interface Report extends Traces {
  readonly worker: number
}

type Ending = (run: number, report: Report) => void

/** Each of them ends a test run that has a server running. */
const endings: readonly (readonly [string, Ending])[] = [
  ['SIGKILL of the run', (run) => signalOne(run, 'SIGKILL')],
  ['SIGKILL of the worker', (_run, { worker }) => signalOne(worker, 'SIGKILL')],
  ['SIGTERM of the worker', (_run, { worker }) => signalOne(worker, 'SIGTERM')],
  ['SIGTERM of the run', (run) => signalOne(run, 'SIGTERM')],
  ['Ctrl-C, which reaches the whole group', (run) => signalOne(-run, 'SIGINT')],
]

describeFamily('redis', 'what a test run leaves behind', () => {
  test.concurrent.each(endings)('%s: no server and no directory', async (_title, end) => {
    await abandonedRun(true, async (run, report) => {
      if (run.pid === undefined) throw new Error('vitest did not start')
      expect(await Promise.all(report.ports.map(isFree))).toEqual([false])
      end(run.pid, report)
      await expectNoTraces(report)
    })
  })

  test.concurrent('a test that forgets to close: no server and no directory', async () => {
    await abandonedRun(false, async (_run, report) => expectNoTraces(report))
  })
})

/** A vitest that runs one test, which starts a server and reports what it started. */
async function abandonedRun(
  waits: boolean,
  check: (run: ChildProcess, report: Report) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'locks-abandoned-'))
  const reportFile = join(folder, 'report.json')
  const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
  const config = fileURLToPath(new URL('./test-support/vitest.config.ts', import.meta.url))
  const run = spawn(process.execPath, [vitest, 'run', '--config', config], {
    detached: true,
    stdio: 'ignore',
    env: {
      ...process.env,
      TMPDIR: folder,
      LOCKS_FIXTURE_REPORT: reportFile,
      LOCKS_FIXTURE_WAITS: waits ? '1' : '0',
    },
  })
  let report: Report | undefined
  try {
    report = await eventually(
      'the fixture reports',
      async () => readReport(await readFile(reportFile, 'utf8')),
      {
        withinMs: 30_000,
      },
    )
    await check(run, report)
  } finally {
    if (run.exitCode === null) run.kill('SIGKILL')
    if (report !== undefined) signalOne(report.worker, 'SIGKILL')
    await rm(folder, { recursive: true, force: true })
  }
}

function readReport(text: string): Report {
  const parsed: unknown = JSON.parse(text)
  if (!isReport(parsed)) throw new Error(`not a report: ${text}`)
  return parsed
}

function isReport(value: unknown): value is Report {
  if (typeof value !== 'object' || value === null) return false
  return ['worker', 'ports', 'pids', 'directories'].every((key) => key in value)
}
