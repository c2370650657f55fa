import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { LockError } from '../adapter/lock-error.ts'
import type { LockErrorCode } from '../adapter/lock-error.ts'
import type { ChildCalls, ChildReply, ChildReport } from './child-calls.ts'
import { stallMeter } from './time/stall-meter.ts'

/** A separate process that runs a lock client and handles calls of this one. */
export interface Child {
  readonly pid: number
  /** Rejects with what the call threw in that process, or when the process ends first. */
  call<K extends keyof ChildCalls>(name: K, args: ChildCalls[K]['args']): Promise<ChildCalls[K]['result']>
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>
  /** SIGSTOP. */
  pause(): void
  /** SIGCONT. */
  resume(): void
  /** Resolves with the exit code (null after a signal) when the process has ended. */
  readonly exited: Promise<number | null>
}

const program = fileURLToPath(new URL('./child.js', import.meta.url))

/** A process that can wait for its next case without keeping this one alive. */
export interface ChildProgram {
  readonly child: Child
  /** Whether it can serve another case: it runs and was never paused. */
  readonly healthy: boolean
  idle(): void
  busy(): void
}

export async function startChild(): Promise<Child> {
  return (await startChildProgram()).child
}

export async function startChildProgram(): Promise<ChildProgram> {
  const child = fork(program, {
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const pending = new Map<number, { resolve: (value: never) => void; reject: (error: unknown) => void }>()
  let calls = 0
  let ended: Error | undefined
  let intended: (() => void) | undefined
  let wasPaused = false
  let isIdle = false
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
    if ('gaps' in reply) {
      if (!isIdle) stallMeter.reported(child.pid ?? 0, reply.gaps)
      return
    }
    const waiting = pending.get(reply.id)
    pending.delete(reply.id)
    if ('error' in reply) waiting?.reject(toError(reply.error))
    else waiting?.resolve(reply.result)
  })
  await once(child, 'spawn')
  // A failed send means that the process has died. Its exit rejects the call and says how.
  child.on('error', () => undefined)
  const { pid } = child
  if (pid === undefined) throw new Error('the child process has no pid')

  const started: Child = {
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
      wasPaused = true
      intended ??= stallMeter.intend(pid)
      child.kill('SIGSTOP')
    },
    resume() {
      child.kill('SIGCONT')
      intended?.()
      intended = undefined
    },
  }
  return {
    child: started,
    get healthy() {
      return ended === undefined && child.connected && !wasPaused
    },
    idle() {
      isIdle = true
      child.unref()
      child.channel?.unref()
    },
    busy() {
      isIdle = false
      child.ref()
      child.channel?.ref()
    },
  }
}

function toError({ code, message }: { readonly code?: LockErrorCode; readonly message: string }): Error {
  return code === undefined ? new Error(message) : new LockError(code, message)
}
