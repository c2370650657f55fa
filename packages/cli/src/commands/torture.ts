import { writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline/promises'
import type { Arguments } from '../arguments.ts'
import { backendOf, backendOptions, showBackend } from '../backend.ts'
import type { Command } from '../command.ts'
import { showDuration } from '../duration.ts'
import { UsageError } from '../errors.ts'
import { exitCodes, signalCode } from '../exit-codes.ts'
import type { Invocation } from '../invocation.ts'
import { faultKinds } from '../torture/faults.ts'
import type { FaultKind } from '../torture/faults.ts'
import { liveProgress } from '../torture/live.ts'
import { commandFault } from '../torture/on-fault.ts'
import type { Plan } from '../torture/options.ts'
import { routeOf } from '../route.ts'
import { textReport } from '../torture/text-report.ts'
import { torture as run } from '../torture/torture.ts'

export const torture: Command = {
  usage: '[URL] [options]',
  about: `Looks for two holders on your own deployment. Worker processes acquire, use and release locks while they
are killed, paused and blocked and while their connections are cut, delayed and refused; every step is recorded. At
the end it checks that no two workers held one name at the same time, that fences are unique and rise, that no stale
write was accepted, that only held locks were reported as held, that nothing is left behind, that every worker ended
and every task made progress, and how soon after a fault the next lock was granted. A hold counts from the return of
acquire to the start of the last assertHeld() that passed, so every overlap is real. Server faults are yours to
inject: let --on-fault restart a server or fail over. Names begin with "torture:" and an id of the run; no other lock
is touched.`,
  options: {
    for: {
      takes: 'TIME',
      help: 'how long faults are injected; default 10m. A few seconds without faults follow',
    },
    processes: { takes: 'N', help: 'number of worker processes, each with its own client; default 4' },
    tasks: { takes: 'N', help: 'number of tasks per process; default 3' },
    names: { takes: 'N', help: 'number of locks that all tasks share; default 8' },
    ttl: { takes: 'TIME', help: 'length of a lease, if the client chooses it; default 1s' },
    faults: { takes: 'LIST', help: `some of ${faultKinds.join(',')}; default: all that apply` },
    'on-fault': {
      takes: 'COMMAND',
      help: 'run COMMAND at random moments, with LOCKS_FAULT=1, 2, … in its environment',
    },
    seed: { takes: 'N', help: 'seed of the fault schedule; default: a random one, which is printed' },
    html: {
      takes: 'FILE',
      help: 'write a page with the holds, faults, losses and refused writes of each worker',
    },
    history: { takes: 'DIR', help: 'keep the recorded history in DIR' },
    yes: { short: 'y', help: 'do not ask for confirmation if the store is on another machine' },
    ...backendOptions,
  },
  examples: [
    'locks torture redis://localhost --for 10m --html report.html',
    `locks torture postgres://localhost/app --on-fault 'systemctl restart postgresql'`,
    'locks torture file:/var/lock/app --faults kill,pause --seed 42',
  ],

  async run(args, invocation) {
    const [url] = args.named('[URL]')
    const backend = await backendOf(args, url)
    const forMs = args.durationMs('for', ['5s', '24h']) ?? 600_000
    const seed = args.integer('seed', [0, 2 ** 31]) ?? Math.floor(Math.random() * 2 ** 31)
    const html = args.text('html')
    const command = args.text('on-fault')
    const options = {
      ...backend,
      forMs,
      seed,
      processes: args.integer('processes', [1, 64]) ?? 4,
      tasks: args.integer('tasks', [1, 64]) ?? 3,
      names: args.integer('names', [1, 1_000]) ?? 8,
      ttlMs: args.durationMs('ttl', ['100ms', '1h']) ?? 1_000,
      faults: faultsOf(args),
      ...(args.text('history') !== undefined && { historyIn: args.text('history') ?? '' }),
    }
    const { remote } = routeOf(backend.config)
    if (remote.length > 0) await confirm(remote, args, invocation)
    if (html !== undefined) await beginReport(html)
    // A signal ends the run; the report is still written.
    const stop = new AbortController()
    let by: NodeJS.Signals | undefined
    invocation.forward((signal) => {
      if (by !== undefined) process.exit(signalCode(signal))
      by = signal
      stop.abort()
    })
    invocation.note(`torturing ${showBackend(backend)} for ${showDuration(forMs)}, seed ${seed}`)
    const live = liveProgress(forMs)
    const failures = new Set<string>()
    const result = await run({
      ...options,
      signal: stop.signal,
      onBegin: (plan) => invocation.note(begins(plan, options.ttlMs)),
      onProgress: live.show,
      ...(command !== undefined && { serverFaults: [commandFault(command, (why) => failures.add(why))] }),
    })
    live.over()
    for (const why of failures) invocation.note(`${invocation.paintError('yellow', 'locks:')} ${why}`)
    if (html !== undefined) {
      const { htmlReport } = await import('../torture/html-report.ts')
      await writeFile(html, htmlReport(showBackend(backend), result))
    }
    if (args.flag('json')) invocation.printJson({ ...result, events: undefined })
    else {
      invocation.print(textReport(result, invocation.paint))
      if (html !== undefined) invocation.print(`\nReport: ${html}`)
    }
    if (result.violations.length > 0) return exitCodes.failure
    return by === undefined ? exitCodes.ok : signalCode(by)
  },
}

function begins({ runId, ttlMs, quietMs, leftOut }: Plan, askedMs: number): string {
  return [
    `names begin with torture:${runId}: and the run ends with ${showDuration(quietMs)} without faults`,
    ...(ttlMs > askedMs ? [`the store or the URL sets the length of a lease to ${showDuration(ttlMs)}`] : []),
    ...(leftOut === undefined ? [] : [`not applied: ${leftOut.faults.join(', ')}; ${leftOut.reason}`]),
  ].join('\n')
}

function faultsOf(args: Arguments): readonly FaultKind[] {
  const text = args.text('faults')
  if (text === undefined) return faultKinds
  const words = text.split(',').map((word) => word.trim())
  const wanted = faultKinds.filter((kind) => words.includes(kind))
  const stray = words.find((word) => !wanted.some((kind) => kind === word))
  if (stray === undefined) return wanted
  throw new UsageError(`--faults: unknown fault ${JSON.stringify(stray)}; known: ${faultKinds.join(', ')}`)
}

async function confirm(remote: readonly string[], args: Arguments, invocation: Invocation): Promise<void> {
  const where = [...new Set(remote)].join(', ')
  const warning = `${invocation.paintError('red', 'WARNING')}: this store is not on this machine: ${where}.
Torture puts load on it, opens and breaks hundreds of connections and, with --on-fault, runs your command.
Do not run it against a store in production.`
  invocation.note(warning)
  if (args.flag('yes')) return
  if (!process.stdin.isTTY) throw new UsageError('cannot ask for confirmation without a terminal: pass --yes')
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  invocation.onEnd(async () => terminal.close())
  terminal.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  const answer = await terminal.question('Continue? [y/N] ', { signal: invocation.signal })
  terminal.close()
  if (!/^y(es)?$/i.test(answer.trim())) throw new UsageError('not started')
}

/** Checks that the file can be written before a run of minutes. */
async function beginReport(file: string): Promise<void> {
  try {
    await writeFile(file, '', { flag: 'a' })
  } catch (error) {
    throw new UsageError(`cannot write --html ${file}: ${error instanceof Error ? error.message : ''}`)
  }
}
