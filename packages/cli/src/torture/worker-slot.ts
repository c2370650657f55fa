import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { WorkerCall, WorkerMessage, WorkerOrder } from './protocol.ts'

const program = fileURLToPath(new URL('./worker.js', import.meta.url))

/** One running worker process. */
export interface Worker {
  readonly process: string
  readonly pid: number
  /** Whether it ended, and not by us. */
  readonly gone: boolean
  block(ms: number, at: 'once' | 'grant'): void
  signal(signal: NodeJS.Signals): void
  kill(): Promise<void>
  /** Tells it to stop. Returns whether it ended by itself in time. */
  stop(withinMs: number): Promise<boolean>
}

export interface Hears {
  granted(task: string): void
  write(name: string, fence: bigint): boolean
  wrong(what: string): void
  warning(text: string): void
}

/** Starts a worker; rejects when its client cannot be made. */
export async function startWorker(order: WorkerOrder, hears: Hears): Promise<Worker> {
  const child = fork(program, {
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  const tell = (call: WorkerCall): void => {
    if (child.connected) child.send(call)
  }
  // A worker that is being killed cannot be written to; its exit tells.
  child.on('error', () => undefined)
  let expected = false
  let gone = false
  const lastWords = tailOf(child)
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      gone = true
      if (!expected) hears.wrong(`worker ${order.process} ended by itself: ${signal ?? code}${lastWords()}`)
      resolve()
    })
  })
  const ready = new Promise<void>((resolve, reject) => {
    void ended.then(() => reject(new Error(`worker ${order.process} ended before it began${lastWords()}`)))
    child.on('message', (message: WorkerMessage) => {
      if (message.type === 'ready') resolve()
      else if (message.type === 'failed') reject(new Error(message.message))
      else if (message.type === 'granted') hears.granted(message.task)
      else if (message.type === 'wrong') hears.wrong(message.what)
      else if (message.type === 'warning') hears.warning(message.text)
      else tell({ type: 'written', id: message.id, accepted: hears.write(message.name, message.fence) })
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
      let late = false
      const timer = setTimeout(() => {
        late = true
        child.kill('SIGKILL')
      }, withinMs)
      await ended
      clearTimeout(timer)
      return !late
    },
  }
}

/** The end of what it wrote to stderr. */
function tailOf(child: ChildProcess): () => string {
  let text = ''
  child.stderr?.setEncoding('utf8').on('data', (more: string) => (text = (text + more).slice(-2_000)))
  return () => (text === '' ? '' : `\n${text}`)
}
