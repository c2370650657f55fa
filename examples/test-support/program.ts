import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** An example that runs in a separate process. */
export interface Program {
  readonly output: string
  /** Resolves with what `look` finds in all that was said so far; rejects if the program ends without. */
  until<T>(look: (output: string) => T | undefined): Promise<T>
  said(pattern: RegExp): Promise<RegExpExecArray>
  kill(signal: NodeJS.Signals): void
  /** Every process it started inherits its stderr, so that the pipe closes when the last of them is gone. */
  readonly ended: Promise<{ readonly exitCode: number | null; readonly output: string }>
}

export function start(
  file: string,
  { args = [], env = {}, cwd }: { args?: string[]; env?: Record<string, string>; cwd?: string } = {},
): Program {
  const { LOCKS_URL: _url, LOCKS_STORE: _store, ...inherited } = process.env
  const child = spawn(process.execPath, [file, ...args], {
    env: { ...inherited, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(cwd !== undefined && { cwd }),
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  const readers = new Set<() => void>()
  const read = (text: string): void => {
    output += text
    for (const reader of readers) reader()
  }
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', read)
  const ended = new Promise<{ exitCode: number | null; output: string }>((resolve) => {
    child.once('close', (exitCode) => resolve({ exitCode, output }))
  })
  const until: Program['until'] = (look) =>
    new Promise((resolve, reject) => {
      const reader = (): void => {
        const found = look(output)
        if (found === undefined) return
        readers.delete(reader)
        resolve(found)
      }
      readers.add(reader)
      reader()
      void ended.then(() => reject(new Error(`it ended without what was waited for:\n${output}`)))
    })
  return {
    get output() {
      return output
    },
    until,
    said: (pattern) => until((text) => pattern.exec(text) ?? undefined),
    kill: (signal) => void child.kill(signal),
    ended,
  }
}

/** An empty directory for this test, with one for locks in it. */
export async function workplace(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'locks-example-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  await mkdir(join(directory, 'locks'))
  return directory
}
