import { spawn } from 'node:child_process'
import { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'

/** Something that must not outlive this process. */
export type Charge =
  | { readonly pid: number }
  | { readonly path: string }
  | { readonly container: string; readonly socketPath: string }

let guardian: Writable | undefined

/**
 * Leaves something to the guardian: a small process that reads from a pipe of ours. When the pipe ends,
 * by an orderly exit or by SIGKILL, it kills and removes whatever was not dropped before. Handlers
 * inside this process would not do: a killed test worker runs none.
 */
export function guard(charge: Charge): () => void {
  guardian ??= startGuardian()
  const pipe = guardian
  pipe.write(`${JSON.stringify({ add: charge })}\n`)
  return () => void pipe.write(`${JSON.stringify({ drop: charge })}\n`)
}

function startGuardian(): Writable {
  const script = fileURLToPath(new URL('./guardian-process.mjs', import.meta.url))
  // Detached: Ctrl-C and a kill of our process group must not reach it.
  const child = spawn(process.execPath, [script], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
    env: {},
  })
  const { stdin } = child
  child.once('error', (error) => warn(error))
  stdin.on('error', (error) => warn(error))
  child.unref()
  if (stdin instanceof Socket) stdin.unref()
  // A forked worker is of no use once the run that forked it is gone, yet it may live on with our pipe.
  if (process.connected) process.once('disconnect', () => stdin.destroy())
  return stdin
}

function warn(error: Error): void {
  process.stderr.write(
    `locks: the guardian of the test servers ended (${error.message}); some may be left behind\n`,
  )
}
