import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { patiently } from './patience.ts'
import type { WorkerCall, WorkerMessage, WorkerOrder } from './protocol.ts'

const program = fileURLToPath(new URL('./worker.js', import.meta.url))

/** One running worker process. */
export interface Worker {
  readonly process: string
  readonly pid: number
  /** Whether it has ended. */
  readonly gone: boolean
  block(ms: number, at: 'once' | 'grant'): void
  /** Calls in waves, see `burst.ts`. */
  burst(): void
  signal(signal: NodeJS.Signals): void
  kill(): Promise<void>
  /** Asks it to stop, and kills it if it does not: that must never happen. */
  stop(withinMs: number): Promise<void>
}

export interface WorkerEvents {
  granted(task: string): void
  write(name: string, fence: bigint): boolean
  wrong(what: string): void
  warning(text: string): void
}

/** Starts a worker; rejects if its client cannot be created. */
export async function startWorker(order: WorkerOrder, events: WorkerEvents): Promise<Worker> {
  const child = fork(program, {
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  const tell = (call: WorkerCall): void => {
    if (child.connected) child.send(call)
  }
  // A worker that is being killed cannot receive messages; its exit event follows.
  child.on('error', () => undefined)
  let expected = false
  let gone = false
  const lastWords = tailOf(child)
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      gone = true
      if (!expected) events.wrong(`worker ${order.process} ended by itself: ${signal ?? code}${lastWords()}`)
      resolve()
    })
  })
  const ready = new Promise<void>((resolve, reject) => {
    void ended.then(() => reject(new Error(`worker ${order.process} ended before it started${lastWords()}`)))
    child.on('message', (message: WorkerMessage) => {
      if (message.type === 'ready') resolve()
      else if (message.type === 'failed') reject(new Error(message.message))
      else if (message.type === 'granted') events.granted(message.task)
      else if (message.type === 'wrong') events.wrong(message.what)
      else if (message.type === 'warning') events.warning(message.text)
      else tell({ type: 'written', id: message.id, accepted: events.write(message.name, message.fence) })
    })
  })
  tell({ type: 'begin', order })
  try {
    await ready
  } catch (error) {
    expected = true
    child.kill('SIGKILL')
    throw error
  }
  return {
    process: order.process,
    pid: child.pid ?? 0,
    get gone() {
      return gone
    },
    block: (ms, at) => tell({ type: 'block', ms, at }),
    burst: () => tell({ type: 'burst' }),
    signal: (signal) => void child.kill(signal),
    async kill() {
      expected = true
      child.kill('SIGKILL')
      await ended
    },
    async stop(withinMs) {
      expected = true
      child.kill('SIGCONT')
      tell({ type: 'stop' })
      const waited = await patiently(withinMs, () => gone)
      if (waited === undefined) return
      child.kill('SIGKILL')
      await ended
      events.wrong(`worker ${order.process} did not stop within ${withinMs} ms: waited for ${waited}`)
    },
  }
}

/** The last part of its stderr. */
function tailOf(child: ChildProcess): () => string {
  let text = ''
  child.stderr?.setEncoding('utf8').on('data', (more: string) => (text = (text + more).slice(-2_000)))
  return () => (text === '' ? '' : `\n${text}`)
}
