import { spawn } from 'node:child_process'
import type { ServerFault } from './faults.ts'

/** Runs the user's command, which may restart or fail over a server. Its output goes to stderr. */
export function commandFault(command: string, onFailure: (why: string) => void): ServerFault {
  let count = 0
  return {
    name: 'on-fault',
    run: () =>
      new Promise((resolve) => {
        count += 1
        const child = spawn(command, {
          shell: true,
          stdio: ['ignore', 2, 2],
          env: { ...process.env, LOCKS_FAULT: String(count) },
        })
        child.once('error', ({ message }) => {
          onFailure(message)
          resolve()
        })
        child.once('exit', (code, signal) => {
          if (code !== 0) onFailure(`the command of --on-fault ended with ${signal ?? code}`)
          resolve()
        })
      }),
  }
}
