import { Heartbeat, hostNow } from './heartbeat.ts'
import type { Gap } from './heartbeat.ts'
import { Probe } from './probe.ts'
import { ProcessWatch } from './process-watch.ts'

/** For how long one part of a run stood still. */
export interface Stall {
  /** `this process`, `child 4711`, `the server`. */
  readonly who: string
  readonly ms: number
  /** The longest at once. */
  readonly longestMs: number
}

/** A gap this long may have held back what came before a wait as well; shorter ones are a loop that turns slowly. */
const PAUSE_MS = 100

/** Children report their gaps at this interval. */
export const REPORT_MS = 200

const CALM_MS = 500

const SERVER = 'the server'
const STORE = 'the store, by its answers'

/** Knows how long this process, its children and the servers under test stood still. One for the whole process. */
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

  /** These processes of this machine count as the server under test, with those that they start. */
  watch(pids: () => readonly number[]): () => void {
    this.#watched.add(pids)
    return () => void this.#watched.delete(pids)
  }

  get watchesServers(): boolean {
    return [...this.#watched].some((pids) => pids().length > 0)
  }

  /** Asks the store again and again: for one whose processes are not on this machine. Ends with the returned function. */
  probe(ask: () => Promise<unknown>): () => Promise<void> {
    const probe = new Probe(ask)
    this.#probes.add(probe)
    return async () => {
      this.#probes.delete(probe)
      await probe.end()
    }
  }

  /** What a child process says of itself. */
  reported(pid: number, gaps: readonly Gap[]): void {
    const who = childName(pid)
    this.#children.set(who, [...(this.#children.get(who) ?? []), ...gaps])
  }

  forget(pid: number): void {
    this.#children.delete(childName(pid))
  }

  /** A pause that a test makes on purpose excuses nothing. It lasts until the returned function is called. */
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
   * What was lost from `from` to `to`. Of the first `waitsMs`, which pass by design, only pauses count: a loop that
   * turns slowly delays nothing while everybody waits.
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

  /** What was lost in the last `ms`, with what children have yet to report. */
  async since(ms: number, waitsMs = 0): Promise<readonly Stall[]> {
    const to = hostNow()
    await new Promise((resolve) => setTimeout(resolve, REPORT_MS * 2))
    return this.during(to - ms, to, waitsMs)
  }

  /** Resolves once little was lost for half a second, and at the latest after `maxMs`. */
  async calm(maxMs: number): Promise<void> {
    for (const end = hostNow() + maxMs; hostNow() < end;) {
      const from = hostNow()
      await new Promise((resolve) => setTimeout(resolve, CALM_MS))
      if (totalMs(this.during(from, hostNow())) < CALM_MS / 5) return
    }
  }

  /** The most that was lost within any `widthMs` from `from` to `to`. */
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
