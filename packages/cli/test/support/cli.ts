import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { onTestFinished } from 'vitest'
import { scaled } from '../../../../conformance/services/timing.ts'

/** Every test starts processes, which takes its time on a busy machine. */
export const inTime = { timeout: scaled(120_000) } as const

export const program: string = fileURLToPath(new URL('../../bin/locks.js', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface Call {
  readonly pid: number
  readonly stdout: string
  readonly stderr: string
  /** Resolves once what it said, on either stream, matches; rejects when it ends without. */
  said(pattern: RegExp): Promise<RegExpExecArray>
  kill(signal: NodeJS.Signals): void
  /** Writes to its input, and leaves that open. */
  type(text: string): void
  /** Whatever it started inherits its output, so this is when the last of them is gone. */
  readonly ended: Promise<Ended>
}

interface CallOptions {
  readonly input?: string
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** Instead of node with the program. */
  readonly via?: readonly [command: string, ...args: string[]]
}

/** Starts `locks` with these arguments, as a process of its own. */
export function locks(args: readonly string[], { input, cwd, env, via }: CallOptions = {}): Call {
  const { LOCKS_URL: _, NO_COLOR: __, ...inherited } = process.env
  const [command, ...rest] = via ?? [process.execPath, program, ...args]
  const child = spawn(command, rest, {
    env: { ...inherited, ...env },
    // Away from the terminal of the tests, if they have one: what has a terminal behaves differently.
    detached: true,
    ...(cwd !== undefined && { cwd }),
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const output = { stdout: '', stderr: '' }
  const readers = new Set<() => void>()
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text
      for (const reader of readers) reader()
    })
  if (input !== undefined) child.stdin.end(input)
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code, signal) => resolve({ code, signal, ...output }))
  })
  return {
    pid: child.pid ?? 0,
    get stdout() {
      return output.stdout
    },
    get stderr() {
      return output.stderr
    },
    said: (pattern) =>
      new Promise((resolve, reject) => {
        const reader = (): void => {
          const found = pattern.exec(output.stdout) ?? pattern.exec(output.stderr)
          if (found !== null) resolve(found)
        }
        readers.add(reader)
        reader()
        void ended.then(() => reject(new Error(`it never said ${pattern}: ${output.stdout}${output.stderr}`)))
      }),
    kill: (signal) => void child.kill(signal),
    type: (text) => void child.stdin.write(text),
    ended,
  }
}

/** A directory of this test's own. */
export async function directory(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'locks-cli-'))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}

/** A store that processes share, and a client of it in this process. */
export async function store(): Promise<{ readonly url: string; readonly client: Locks }> {
  const url = `file:${await directory()}`
  const client = await openLocks(url)
  onTestFinished(() => client.close())
  return { url, client }
}

const core = JSON.stringify(new URL('../../../core/dist/index.js', import.meta.url).href)
const memory = JSON.stringify(new URL('../../../memory/dist/index.js', import.meta.url).href)

/** A config file that names an adapter of this test's own: that of `@locks/memory`, with some of its steps replaced. */
export async function ownAdapter(steps: string): Promise<string> {
  const folder = await directory()
  const source = `import { LockError } from ${core}
import { fromConfig as memory } from ${memory}
export const fromConfig = () => (host) => ({ ...memory({})(host), ${steps} })`
  await writeFile(join(folder, 'own.mjs'), source)
  await writeFile(join(folder, 'locks.json'), JSON.stringify({ adapter: './own.mjs' }))
  return join(folder, 'locks.json')
}

/** A running node program that says what it is told, for `locks run`. */
export function node(source: string): readonly string[] {
  return ['--', process.execPath, '--eval', source]
}

/** Prints `ready`, and runs until it is ended. */
export const waitForEnd = 'console.log("ready"); setInterval(() => {}, 1_000);'
