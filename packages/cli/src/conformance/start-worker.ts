import { fork } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { UsageError } from '../errors.ts'
import { outcomeOf } from './outcome.ts'
import type { Outcome } from './outcome.ts'
import type { Left } from './tidy.ts'
import type { CaseInfo, WorkerCall, WorkerMessage, WorkerOrder } from './worker-protocol.ts'

/** A process that runs cases one at a time. */
export interface Worker {
  readonly subject: string
  readonly ttlMs: number
  readonly cases: readonly CaseInfo[]
  /** Never rejects: a process that crashes or hangs fails the case. */
  run(info: CaseInfo): Promise<Outcome>
  /** Whether names outlive the suite in its store. */
  readonly lasts: boolean
  /** Drops what the store keeps of these names. Never rejects; returns what stays. */
  tidy(names: readonly string[]): Promise<readonly Left[]>
  /** Whether it can run another case. */
  readonly alive: boolean
  /** Lets it clean up; kills it if that takes too long. */
  close(): Promise<void>
}

const program = fileURLToPath(new URL('./worker.js', import.meta.url))
const TIDY_MS = 15_000
/** For thousands of names on a slow store. */
const CLEAN_MS = 120_000

export interface WorkerWatch {
  /** Receives a function that ends the process, even before it is ready. */
  readonly onClose: (close: () => Promise<void>) => void
  /** Receives each line that the process or its children print, with the rule that ran then. */
  readonly onOutput: (line: string, rule: string | undefined) => void
  /** Receives the name of each lock before a rule uses it. */
  readonly onName: (name: string) => void
}

/** Rejects if there is no subject to test. */
export async function startWorker(
  order: WorkerOrder,
  { onClose, onOutput, onName }: WorkerWatch,
): Promise<Worker> {
  let rule: string | undefined
  const child = fork(program, {
    execArgv: [],
    serialization: 'advanced',
    // Output of an adapter must not mix with the result or with another line.
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  for (const stream of [child.stdout, child.stderr])
    if (stream !== null) createInterface({ input: stream }).on('line', (line) => onOutput(line, rule))
  let how: string | undefined
  let onMessage: ((message: WorkerMessage | 'ended') => void) | undefined
  const exited = new Promise<void>((resolve) => {
    const end = (why: string): void => {
      how = why
      onMessage?.('ended')
      resolve()
    }
    child.once('exit', (code, signal) =>
      end(signal === null ? `exited with ${code}` : `was ended by ${signal}`),
    )
    // A failed send means that the process has died, and its exit event follows; one that never started has none.
    child.on('error', ({ message }) => {
      if (child.pid === undefined) end(`could not be started (${message})`)
    })
  })
  child.on('message', (message: WorkerMessage) => {
    if (message.type === 'name') onName(message.name)
    else onMessage?.(message)
  })
  const next = (): Promise<WorkerMessage | 'ended'> =>
    new Promise((resolve) => {
      onMessage = resolve
      if (how !== undefined) resolve('ended')
    })

  const tell = (call: WorkerCall): void => {
    if (child.connected) child.send(call)
  }

  async function close(): Promise<void> {
    if (child.connected) child.disconnect()
    const timer = setTimeout(() => child.kill('SIGKILL'), TIDY_MS)
    await exited
    clearTimeout(timer)
  }
  onClose(close)

  const ready = next()
  tell({ type: 'begin', order })
  const first = await ready
  if (first === 'ended') throw new Error(`the process that runs the suite ${how} before it started`)
  if (first.type === 'crashed') throw new Error(`uncaught ${first.message}`)
  if (first.type === 'failed') throw first.misused ? new UsageError(first.message) : new Error(first.message)
  if (first.type !== 'ready') throw new Error('the process that runs the suite sent an unexpected message')

  return {
    subject: first.subject,
    ttlMs: first.ttlMs,
    cases: first.cases,
    lasts: first.lasts,
    close,
    get alive() {
      return how === undefined
    },
    async tidy(names) {
      const answer = next()
      tell({ type: 'tidy', names })
      const timer = setTimeout(() => child.kill('SIGKILL'), CLEAN_MS)
      const message = await answer
      clearTimeout(timer)
      if (message !== 'ended' && message.type === 'tidied') return message.left
      await exited
      return [{ names: names.length, why: `the process that cleans up ${how}` }]
    },
    async run(info) {
      rule = info.id
      const begin = performance.now()
      const answer = next()
      tell({ type: 'run', id: info.id })
      // The case enforces its own time limit, unless its process hangs.
      const timer = setTimeout(() => child.kill('SIGKILL'), info.timeoutMs + TIDY_MS)
      const message = await answer
      clearTimeout(timer)
      if (message !== 'ended' && message.type === 'outcome') return message.outcome
      await exited
      const durationMs = Math.round(performance.now() - begin)
      const thrown = message !== 'ended' && message.type === 'crashed' ? `: uncaught ${message.message}` : ''
      return outcomeOf(info, {
        state: 'failed',
        durationMs,
        reason: `the process that ran it ${how}${thrown}`,
      })
    },
  }
}
