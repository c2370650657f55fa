import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { ProxyCall, ProxyMessage, Target, WireFault } from './protocol.ts'

/** The process with the proxies: one for each worker slot and server. */
export interface Proxies {
  /** The addresses of the servers for the worker of `slot`. */
  addresses(slot: number): readonly Target[]
  inject(slot: number, fault: WireFault): void
  heal(slot: number): void
  /** If this program is killed, the proxy process resumes the workers that are paused. */
  note(type: 'stopped' | 'continued', pid: number): void
  close(): Promise<void>
}

const program = fileURLToPath(new URL('./proxy-process.js', import.meta.url))

export async function startProxies(slots: number, targets: readonly Target[]): Promise<Proxies> {
  const child = fork(program, { execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const tell = (call: ProxyCall): void => {
    if (child.connected) child.send(call)
  }
  const opened = new Promise<ProxyMessage>((resolve, reject) => {
    child.once('message', (message: ProxyMessage) => resolve(message))
    void ended.then(() => reject(new Error('the proxy process ended before it started')))
  })
  tell({ type: 'open', slots, targets })
  const { ports } = await opened
  return {
    addresses: (slot) => (ports[slot] ?? []).map((port) => ({ host: '127.0.0.1', port })),
    inject: (slot, fault) => tell({ type: 'fault', slot, fault }),
    heal: (slot) => tell({ type: 'heal', slot }),
    note: (type, pid) => tell({ type, pid }),
    async close() {
      if (child.connected) child.disconnect()
      await ended
    },
  }
}
