import { stallMeter } from '@locks/core/conformance'
import type { ServerPlan } from './programs/program.ts'
import type { Server } from './service.ts'
import { eventually, within } from './timing.ts'

/** The little that differs between a process and a container. */
export interface Handle {
  readonly pid: number | undefined
  readonly directory: string | undefined
  running(): Promise<boolean>
  /** Starts it; does not wait until it answers. */
  launch(): Promise<void>
  /** Asks it to end and waits until it is gone. */
  terminate(): Promise<void>
  kill(): Promise<void>
  pause(): Promise<void>
  resume(): Promise<void>
  signal(pid: number, signal: NodeJS.Signals): Promise<void>
  /** Leaves the file `wipe` in the server's directory, for the next launch to find. */
  markForWipe(): Promise<void>
  /** The end of what the server wrote. */
  log(): Promise<string>
}

export async function logOf(handles: readonly Handle[]): Promise<string> {
  return (await Promise.all(handles.map((handle) => handle.log()))).join('\n')
}

export function controlledServer(plan: ServerPlan, handle: Handle): Server {
  const address = { host: '127.0.0.1', port: plan.port }
  let paused = false
  let meant: (() => void) | undefined
  stallMeter.watch(() => (handle.pid === undefined ? [] : [handle.pid]))

  async function failure(what: string, cause?: unknown): Promise<Error> {
    return new Error(`${plan.name} ${what}; its log ends with:\n${await handle.log()}`, { cause })
  }

  async function untilReady(): Promise<void> {
    const unless = async (): Promise<Error | undefined> =>
      (await handle.running()) ? undefined : failure('ended before it was ready')
    try {
      const check = async (): Promise<true> => {
        // Some servers accept before they listen to what is said, and never answer that connection.
        await within(1_000, plan.ready(address))
        return true
      }
      await eventually(`${plan.name} answers`, check, { withinMs: 30_000, unless })
    } catch (error) {
      if (!(await handle.running())) throw error
      throw await failure('did not become ready', error)
    }
    // On a port that another program took first, the answer came from that program.
    if (!(await handle.running())) throw await failure('ended as soon as it was ready')
  }

  const server: Server = {
    name: plan.name,
    url: plan.url,
    ...address,
    get pid() {
      return handle.pid
    },
    directory: handle.directory,
    async start() {
      if (await handle.running()) return
      paused = false
      await handle.launch()
      await untilReady()
    },
    async stop() {
      if (!(await handle.running())) return
      await server.resume()
      await handle.terminate()
    },
    async kill() {
      if (await handle.running()) await handle.kill()
    },
    async pause() {
      if (!(await handle.running())) throw new Error(`${plan.name} is not running and cannot be paused`)
      meant ??= stallMeter.intend('server')
      if (!paused) await handle.pause()
      paused = true
    },
    async resume() {
      if (paused && (await handle.running())) await handle.resume()
      paused = false
      meant?.()
      meant = undefined
    },
    async restart({ wipe = false, hard = false } = {}) {
      await (hard ? server.kill() : server.stop())
      if (wipe) await handle.markForWipe()
      await server.start()
    },
    signal: (pid, signal) => handle.signal(pid, signal),
  }
  return server
}
