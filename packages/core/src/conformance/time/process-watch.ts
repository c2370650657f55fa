import { readFileSync, readdirSync } from 'node:fs'
import { hostNow, parseSchedstat } from './heartbeat.ts'
import type { Gap } from './heartbeat.ts'

const SAMPLE_MS = 250
/** Servers that fork do so rarely. */
const TREE_MS = 1_000
const KEPT_MS = 10 * 60_000

interface Sample {
  readonly at: number
  /** How long each thread has waited for a CPU, by its path. */
  readonly waited: ReadonlyMap<string, number>
  readonly stopped: boolean
}

/**
 * Measures from outside how long other processes of this machine were paused: stopped, or ready to run without a CPU.
 * Works on Linux only, which counts the latter; elsewhere it reports nothing.
 */
export class ProcessWatch {
  readonly #roots: () => readonly number[]
  #gaps: Gap[] = []
  #timer: NodeJS.Timeout | undefined
  #users = 0
  #last: Sample | undefined
  #tree: { readonly at: number; readonly pids: readonly number[] } = { at: -Infinity, pids: [] }

  /** `roots` are process ids; their descendants count too. */
  constructor(roots: () => readonly number[]) {
    this.#roots = roots
  }

  start(): void {
    this.#users += 1
    if (process.platform !== 'linux' || this.#timer !== undefined) return
    this.#last = undefined
    this.#sample()
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS)
    this.#timer.unref()
  }

  stop(): void {
    this.#users -= 1
    if (this.#users > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** The time lost so far. All processes together never lose more than the elapsed time. */
  gaps(): readonly Gap[] {
    if (this.#timer !== undefined) this.#sample()
    return this.#gaps
  }

  #sample(): void {
    const roots = this.#roots()
    const now: Sample = {
      at: hostNow(),
      waited: new Map(this.#pids(roots).flatMap(threadsOf)),
      stopped: roots.some(isStopped),
    }
    const last = this.#last
    this.#last = now
    if (last === undefined) return
    const span = now.at - last.at
    let lostMs = now.stopped || last.stopped ? span : 0
    for (const [thread, waited] of now.waited) lostMs += waited - (last.waited.get(thread) ?? waited)
    if (lostMs > 1) this.#gaps.push({ from: last.at, to: now.at, lostMs: Math.min(lostMs, span) })
    if ((this.#gaps[0]?.to ?? Infinity) < now.at - KEPT_MS) this.#gaps.shift()
  }

  #pids(roots: readonly number[]): readonly number[] {
    const now = hostNow()
    if (
      roots.length > 0 &&
      (now - this.#tree.at > TREE_MS || !roots.every((pid) => this.#tree.pids.includes(pid)))
    )
      this.#tree = { at: now, pids: treeOf(roots) }
    return roots.length === 0 ? [] : this.#tree.pids
  }
}

/** Servers fork from their main thread. If the kernel does not list children, only the roots are watched. */
function treeOf(roots: readonly number[]): readonly number[] {
  const found = [...roots]
  for (const pid of found)
    found.push(
      ...unlessGone(() => {
        const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
        return children.split(' ').filter(Boolean).map(Number)
      }),
    )
  return found
}

function threadsOf(pid: number): [string, number][] {
  const folder = `/proc/${pid}/task`
  return unlessGone(() =>
    readdirSync(folder).map((thread) => {
      const path = `${folder}/${thread}/schedstat`
      return [path, parseSchedstat(readFileSync(path, 'utf8')).waitedMs]
    }),
  )
}

function isStopped(pid: number): boolean {
  const [stat = ''] = unlessGone(() => [readFileSync(`/proc/${pid}/stat`, 'utf8')])
  // The state follows the name, which may contain spaces and parentheses.
  return /^[Tt]$/.test(stat.charAt(stat.lastIndexOf(')') + 2))
}

function unlessGone<T>(read: () => T[]): T[] {
  try {
    return read()
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH'))
      return []
    throw error
  }
}
