import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export interface ReferenceServer {
  readonly url: string
  readonly host: string
  readonly port: number
  readonly pid: number
  /** For `openLocks`, in any process of this machine. */
  readonly config: { readonly adapter: string; readonly url: string }
  /** The config of a client that connects elsewhere, to a proxy in between. */
  readonly via: (address: { readonly host: string; readonly port: number }) => ReferenceServer['config']
  /** SIGSTOP: the server keeps its connections and answers nobody. */
  readonly pause: () => void
  readonly resume: () => void
  /** SIGKILL. The locks are gone with it, which is why there is no restart. */
  readonly kill: () => Promise<void>
  readonly stop: () => Promise<void>
}

const program = fileURLToPath(new URL('./server.js', import.meta.url))
const adapter = fileURLToPath(new URL('./index.js', import.meta.url))

/** Starts a server of its own process, which ends with this one. */
export async function startReferenceServer(): Promise<ReferenceServer> {
  const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] })
  // The pipe ends the server even if this process is killed; a paused one would not notice.
  const killWithUs = (): void => void child.kill('SIGKILL')
  process.once('exit', killWithUs)
  child.once('exit', () => process.off('exit', killWithUs))
  child.stdin.on('error', () => undefined) // the server is gone, which 'exit' tells
  const { pid } = child
  const port = await portOf(child)
  if (pid === undefined) throw new Error('the reference server has no pid')
  const host = '127.0.0.1'
  const via: ReferenceServer['via'] = (at) => ({ adapter, url: `tcp://${at.host}:${at.port}` })
  const config = via({ host, port })

  async function end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill(signal)
    child.kill('SIGCONT') // a paused one hears nothing but SIGKILL
    await exited
  }

  return {
    url: config.url,
    host,
    port,
    pid,
    config,
    via,
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
  }
}

function portOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    const { stdout } = child
    if (stdout === null) return reject(new Error('the reference server has no standard output'))
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`the reference server ended at its start (${code})`)))
    createInterface({ input: stdout }).once('line', (line) => {
      const said: unknown = JSON.parse(line)
      if (typeof said === 'object' && said !== null && 'port' in said && typeof said.port === 'number')
        resolve(said.port)
      else reject(new Error('the reference server did not say its port'))
    })
  })
}
