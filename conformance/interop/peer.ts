import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { classPath } from './java.ts'

/** What a Java process took: a number to release it by, and its fence where it has one. */
export interface Held {
  readonly id: number
  readonly fence: bigint | undefined
}

/** A Java process with the locks of the library it is named after. */
export interface Peer {
  /** As its program documents; undefined when the wait was over. */
  acquire(...words: readonly (string | number)[]): Promise<Held | undefined>
  release(held: Held | undefined): Promise<void>
  kill(): Promise<void>
}

/** For tests that do not end at all otherwise: the reason stands in what Java wrote to its standard error. */
const STDERR_LIMIT = 4_000

export async function startPeer(program: string, args: readonly (string | number)[]): Promise<Peer> {
  const quiet = ['-Xmx128m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-cp', classPath]
  const java = spawn('java', [...quiet, program, ...args.map(String)], { stdio: 'pipe' })
  const pending = new Map<number, { resolve: (answer: string) => void; reject: (error: Error) => void }>()
  let said = ''
  let ended = false
  let calls = 0
  java.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-STDERR_LIMIT)))
  // Writing to a killed process fails; pending calls reject when it ends.
  java.stdin.on('error', () => undefined)
  const endedError = (): Error => new Error(`the Java process ended: ${said}`)
  const answerTo = (id: number): Promise<string> =>
    new Promise((resolve, reject) => {
      if (ended) reject(endedError())
      else pending.set(id, { resolve, reject })
    })
  createInterface(java.stdout).on('line', (line) => {
    const [, id, answer = ''] = /^(\d+) (.*)$/.exec(line) ?? []
    pending.get(Number(id))?.resolve(answer)
    pending.delete(Number(id))
  })
  const gone = once(java, 'close').then(() => {
    ended = true
    for (const { reject } of pending.values()) reject(endedError())
  })
  const call = async (...words: readonly (string | number)[]): Promise<{ id: number; answer: string }> => {
    const id = ++calls
    const answer = answerTo(id)
    java.stdin.write(`${[id, ...words].join(' ')}\n`)
    return { id, answer: await answer }
  }
  await answerTo(0)
  return {
    async acquire(...words) {
      const { id, answer } = await call('acquire', ...words)
      if (answer === 'timeout') return undefined
      const [, about] = /^granted (.*)$/.exec(answer) ?? []
      if (about === undefined) throw new Error(answer)
      return { id, fence: about === '-' ? undefined : BigInt(about) }
    },
    async release(held) {
      if (held === undefined) throw new Error('nothing was taken')
      const { answer } = await call('release', held.id)
      if (answer !== 'released') throw new Error(answer)
    },
    async kill() {
      java.kill('SIGKILL')
      await gone
    },
  }
}
