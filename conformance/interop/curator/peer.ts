import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'

const home = import.meta.dirname
const target = join(home, '../../.cache/curator-peer')

/** Why the Java side cannot be built here; undefined when it can. */
export function whyNoPeer(): string | undefined {
  for (const program of ['javac', 'mvn'])
    if (spawnSync(program, ['-version'], { stdio: 'ignore' }).error !== undefined)
      return `interop with Curator needs a JDK and Maven: no ${program}`
  return undefined
}

/** Compiles the peer and fetches Curator. Answers its class path. */
export async function buildPeer(): Promise<string> {
  await mkdir(target, { recursive: true })
  const goals = ['dependency:copy-dependencies', 'compile', `-DoutputDirectory=${target}/jars`]
  const flags = ['-q', '-B', '-f', join(home, 'pom.xml'), `-DbuildDirectory=${target}`]
  await promisify(execFile)('mvn', [...flags, ...goals])
  return `${target}/classes:${target}/jars/*`
}

/** A Java process whose locks are Curator's own. */
export interface Peer {
  /** Resolves with a number to release by; undefined when the wait was over. */
  acquire(path: string, waitMs: number): Promise<number | undefined>
  release(held: number): Promise<void>
  kill(): Promise<void>
}

export async function startPeer(classPath: string, servers: string, sessionTimeoutMs: number): Promise<Peer> {
  const quiet = ['-Xmx128m', '-XX:TieredStopAtLevel=1', '-cp', classPath]
  const java = spawn('java', [...quiet, 'CuratorPeer', servers, String(sessionTimeoutMs)], {
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const pending = new Map<number, { resolve: (answer: string) => void; reject: (error: Error) => void }>()
  let calls = 0
  const answerTo = (id: number): Promise<string> =>
    new Promise((resolve, reject) => pending.set(id, { resolve, reject }))
  createInterface(java.stdout).on('line', (line) => {
    const [, id, answer = ''] = /^(\d+) (.*)$/.exec(line) ?? []
    pending.get(Number(id))?.resolve(answer)
    pending.delete(Number(id))
  })
  const gone = once(java, 'exit').then(() => {
    for (const { reject } of pending.values()) reject(new Error('the Java process ended'))
  })
  const call = async (...words: readonly (string | number)[]): Promise<[number, string]> => {
    const id = ++calls
    const answer = answerTo(id)
    java.stdin.write(`${[id, ...words].join(' ')}\n`)
    return [id, await answer]
  }
  await answerTo(0)
  return {
    async acquire(path, waitMs) {
      const [id, answer] = await call('acquire', path, waitMs)
      if (answer === 'granted') return id
      if (answer === 'timeout') return undefined
      throw new Error(answer)
    },
    async release(held) {
      const [, answer] = await call('release', held)
      if (answer !== 'released') throw new Error(answer)
    },
    async kill() {
      java.kill('SIGKILL')
      await gone
    },
  }
}
