import { spawn, type ChildProcess } from 'node:child_process'
import { open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { guard } from '../guardian/guardian.ts'
import { freezeTree, isAlive, isStopped, killTree, signalOne, thawTree } from '../guardian/process-tree.mjs'
import type { Handle } from '../server.ts'
import { eventually } from '../timing.ts'
import type { User } from './unprivileged-user.ts'

export interface LocalProcess {
  readonly script: string
  readonly directory: string
  readonly env: Readonly<Record<string, string>>
  readonly user: User | undefined
  readonly stopSignal: NodeJS.Signals
}

export function localProcess({ script, directory, env, user, stopSignal }: LocalProcess): Handle {
  const logFile = join(directory, 'server.log')
  let child: ChildProcess | undefined

  async function gone(pids: readonly number[]): Promise<void> {
    const what = `processes ${pids.join(', ')} of ${directory} are gone`
    await eventually(what, () => child === undefined && !pids.some(isAlive), { withinMs: 15_000 })
  }

  async function launch(): Promise<void> {
    const log = await open(logFile, 'a')
    try {
      // Detached: Ctrl-C must not reach the server before the tests had their say. The guardian ends it.
      const started = spawn('/bin/sh', ['-c', script], {
        cwd: directory,
        detached: true,
        env: { ...process.env, ...env },
        stdio: ['ignore', log.fd, log.fd],
        ...user,
      })
      const { pid } = started
      const release = pid === undefined ? undefined : guard({ pid })
      child = started
      const forget = (): void => {
        release?.()
        if (child === started) child = undefined
      }
      started.once('exit', forget).once('error', forget).unref()
    } finally {
      await log.close()
    }
  }

  const handle: Handle = {
    get pid() {
      return child?.pid
    },
    directory,
    running: () => Promise.resolve(child !== undefined),
    launch,
    async terminate() {
      const pid = child?.pid
      if (pid === undefined) return
      signalOne(pid, stopSignal)
      try {
        await gone([pid])
      } catch (error) {
        await handle.kill()
        throw error
      }
    },
    async kill() {
      const pid = child?.pid
      if (pid !== undefined) await gone(killTree(pid))
    },
    async pause() {
      const pid = child?.pid
      const pids = pid === undefined ? [] : freezeTree(pid)
      const what = `processes ${pids.join(', ')} of ${directory} stand still`
      await eventually(what, () => pids.every(isStopped), { withinMs: 15_000 })
    },
    resume() {
      const pid = child?.pid
      if (pid !== undefined) thawTree(pid)
      return Promise.resolve()
    },
    signal(pid, signal) {
      signalOne(pid, signal)
      return Promise.resolve()
    },
    markForWipe: () => writeFile(join(directory, 'wipe'), ''),
    async log() {
      const text = await readFile(logFile, 'utf8')
      return text.trimEnd().split('\n').slice(-20).join('\n')
    },
  }
  return handle
}
