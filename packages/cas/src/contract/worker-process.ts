import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { StoreModule } from './index.ts'

export interface WorkerTask extends StoreModule {
  readonly key: string
}

/** What a worker says: `ready`, then the version of each put that succeeded, then `done` or why not. */
export type WorkerNews =
  | { readonly version: bigint }
  | { readonly state: 'ready' | 'done' }
  | { readonly failure: string }

/** A process that adds one to a key again and again, by compare-and-set. */
export interface Worker {
  /** Resolves with the versions of its puts; rejects when it fails or ends before. */
  count(times: number): Promise<readonly bigint[]>
  /** Versions it said it was given. */
  readonly acknowledged: readonly bigint[]
  /** Resolves with its first put. */
  readonly first: Promise<void>
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>
}

const program = fileURLToPath(new URL('./worker.js', import.meta.url))

export async function startWorker(task: WorkerTask): Promise<Worker> {
  const child = fork(program, {
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  const acknowledged: bigint[] = []
  let began: () => void = () => undefined
  const first = new Promise<void>((resolve) => (began = resolve))
  const told = (wanted: 'ready' | 'done'): Promise<void> =>
    new Promise((resolve, reject) => {
      child.on('message', (news: WorkerNews) => {
        if ('failure' in news) reject(new Error(news.failure))
        else if ('state' in news && news.state === wanted) resolve()
      })
      void exited.then(() => reject(new Error(`worker ${child.pid} ended`)))
    })
  child.on('message', (news: WorkerNews) => {
    if (!('version' in news)) return
    acknowledged.push(news.version)
    began()
  })
  const ready = told('ready')
  child.send(task)
  await ready
  return {
    acknowledged,
    first,
    async count(times) {
      const done = told('done')
      child.send(times)
      await done
      return acknowledged
    },
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}
