import { Heartbeat, hostNow } from './heartbeat.ts'
import type { Gap } from './heartbeat.ts'
import { Probe } from './probe.ts'
import { ProcessWatch } from './process-watch.ts'

/** How long one part of a run was paused. */
export interface Stall {
  /** `this process`, `child 4711`, `the server`. */
  readonly who: string
  readonly ms: number
  /** The longest single pause. */
  readonly longestMs: number
}

/** A gap this long may have delayed what came before a wait too; shorter gaps come from a slow event loop. */
const PAUSE_MS = 100

/** Children report their gaps at this interval. */
export const REPORT_MS = 200

const CALM_MS = 500

const SERVER = 'the server'
const STORE = 'the store, by its answers'

/** Measures how long this process, its children and the servers under test were paused. One per process. */
export class StallMeter {
  readonly #own = new Heartbeat()
  readonly #watched = new Set<() => readonly number[]>()
  readonly #servers = new ProcessWatch(() => [...this.#watched].flatMap((pids) => [...pids()]))
  readonly #children = new Map<string, Gap[]>()
  readonly #probes = new Set<Probe>()
  #intended: { readonly who: string; readonly from: number; to: number }[] = []

  /** Measures until the returned function is called. */
  start(): () => void {
    this.#own.start()
    this.#servers.start()
    return () => {
      this.#own.stop()
      this.#servers.stop()
    }
  }

  /** These processes of this machine and their descendants count as the server under test. */
  watch(pids: () => readonly number[]): () => void {
    this.#watched.add(pids)
    return () => void this.#watched.delete(pids)
  }

  get watchesServers(): boolean {
    return [...this.#watched].some((pids) => pids().length > 0)
  }

  /** Queries the store repeatedly, if its processes are not on this machine. Call the returned function to stop. */
  probe(ask: () => Promise<unknown>): () => Promise<void> {
    const probe = new Probe(ask)
    this.#probes.add(probe)
    return async () => {
      this.#probes.delete(probe)
      await probe.end()
    }
  }

  /** Gaps that a child process reports. */
  reported(pid: number, gaps: readonly Gap[]): void {
    const who = childName(pid)
    this.#children.set(who, [...(this.#children.get(who) ?? []), ...gaps])
  }

  forget(pid: number): void {
    this.#children.delete(childName(pid))
  }

  /** Marks a pause as intended, so that it excuses nothing, until the returned function is called. */
  intend(paused: 'server' | number): () => void {
    const whose = paused === 'server' ? [SERVER, STORE] : [childName(paused)]
    const pauses = whose.map((who) => ({ who, from: hostNow(), to: Infinity }))
    this.#intended.push(...pauses)
    return () => {
      for (const pause of pauses) pause.to = hostNow()
      this.#intended = this.#intended.filter(({ to }) => to > hostNow() - 600_000)
    }
  }

  /**
   * The time lost from `from` to `to`. Of the first `waitsMs`, which pass by design, only pauses count: a slow event
   * loop delays nothing while all clients wait.
   */
  during(from: number, to: number, waitsMs = 0): readonly Stall[] {
    const probed = [...this.#probes].flatMap((probe) => probe.gaps())
    const all: [string, readonly Gap[]][] = [
      ['this process', this.#own.gaps()],
      ...this.#children,
      [SERVER, this.#servers.gaps()],
      [STORE, probed],
    ]
    return all.flatMap(([who, gaps]) => {
      const pauses = this.#intended.filter((one) => one.who === who)
      const lost = gaps.map((gap) => {
        const since = gap.lostMs >= PAUSE_MS ? from : from + waitsMs
        return lostWithin(gap, Math.max(from, since), to, pauses)
      })
      const ms = lost.reduce((sum, one) => sum + one, 0)
      return ms < 1 ? [] : [{ who, ms: Math.min(ms, to - from), longestMs: Math.max(...lost) }]
    })
  }

  /** The time lost in the last `ms`, including what children have yet to report. */
  async since(ms: number, waitsMs = 0): Promise<readonly Stall[]> {
    const to = hostNow()
    await new Promise((resolve) => setTimeout(resolve, REPORT_MS * 2))
    return this.during(to - ms, to, waitsMs)
  }

  /** Resolves when little time was lost for half a second, and after `maxMs` at the latest. */
  async calm(maxMs: number): Promise<void> {
    for (const end = hostNow() + maxMs; hostNow() < end;) {
      const from = hostNow()
      await new Promise((resolve) => setTimeout(resolve, CALM_MS))
      if (totalMs(this.during(from, hostNow())) < CALM_MS / 5) return
    }
  }

  /** The most time lost within any `widthMs` between `from` and `to`. */
  worst(from: number, to: number, widthMs: number): readonly Stall[] {
    let worst: readonly Stall[] = []
    for (let at = from; at < to; at += widthMs / 4) {
      const stalls = this.during(at, Math.min(at + widthMs, to))
      if (totalMs(stalls) > totalMs(worst)) worst = stalls
    }
    return worst
  }
}

export function totalMs(stalls: readonly Stall[]): number {
  return stalls.reduce((sum, { ms }) => sum + ms, 0)
}

function lostWithin(
  gap: Gap,
  from: number,
  to: number,
  pauses: readonly { readonly from: number; readonly to: number }[],
): number {
  const inside = overlap(gap, { from, to })
  const meant = pauses.reduce((sum, pause) => sum + overlap(gap, pause), 0)
  return Math.max(0, Math.min(gap.lostMs - meant, inside))
}

interface Span {
  readonly from: number
  readonly to: number
}

function overlap(a: Span, b: Span): number {
  return Math.max(0, Math.min(a.to, b.to) - Math.max(a.from, b.from))
}

function childName(pid: number): string {
  return `child ${pid}`
}

/** The meter of this process. */
export const stallMeter: StallMeter = new StallMeter()
