import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { LockError } from '../errors.ts'
import type { LockErrorCode } from '../errors.ts'
import type { ChildCalls, ChildReply, ChildReport } from './child-calls.ts'
import { stallMeter } from './time/stall-meter.ts'

/** A real process that runs a lock client and does as it is told. */
export interface Child {
  readonly pid: number
  /** Rejects with what the call threw over there, or when the process ends first. */
  call<K extends keyof ChildCalls>(name: K, args: ChildCalls[K]['args']): Promise<ChildCalls[K]['result']>
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>
  /** SIGSTOP. */
  pause(): void
  /** SIGCONT. */
  resume(): void
  /** Resolves with the exit code (null after a signal) once it ended. */
  readonly exited: Promise<number | null>
}

const program = fileURLToPath(new URL('./child.js', import.meta.url))

export async function startChild(): Promise<Child> {
  const child = fork(program, {
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const pending = new Map<number, { resolve: (value: never) => void; reject: (error: unknown) => void }>()
  let calls = 0
  let ended: Error | undefined
  let intended: (() => void) | undefined
  const exited = new Promise<number | null>((resolve) => {
    child.once('exit', (code, signal) => {
      const how = signal === null ? `with ${code}` : `by ${signal}`
      ended = new Error(`child process ${child.pid} ended ${how}`)
      for (const { reject } of pending.values()) reject(ended)
      pending.clear()
      resolve(code)
    })
  })
  child.on('message', (reply: ChildReply | ChildReport) => {
    if ('gaps' in reply) return stallMeter.reported(child.pid ?? 0, reply.gaps)
    const waiting = pending.get(reply.id)
    pending.delete(reply.id)
    if ('error' in reply) waiting?.reject(toError(reply.error))
    else waiting?.resolve(reply.result)
  })
  await once(child, 'spawn')
  // That it cannot be told anything means that it has died; its exit, which says how, rejects the call.
  child.on('error', () => undefined)
  const { pid } = child
  if (pid === undefined) throw new Error('the child process has no pid')

  return {
    pid,
    exited,
    call: (name, args) =>
      new Promise((resolve, reject) => {
        if (ended !== undefined) return reject(ended)
        const id = ++calls
        pending.set(id, { resolve, reject })
        child.send({ id, name, args })
      }),
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
    pause() {
      intended ??= stallMeter.intend(pid)
      child.kill('SIGSTOP')
    },
    resume() {
      child.kill('SIGCONT')
      intended?.()
      intended = undefined
    },
  }
}

function toError({ code, message }: { readonly code?: LockErrorCode; readonly message: string }): Error {
  return code === undefined ? new Error(message) : new LockError(code, message)
}
