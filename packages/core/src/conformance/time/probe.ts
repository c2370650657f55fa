import { hostNow } from './heartbeat.ts'
import type { Gap } from './heartbeat.ts'

const PAUSE_MS = 100
/** How much response times vary normally. */
const USUAL_MS = 20

/** Queries a store at an interval. Time beyond the usual response time counts as lost: something was paused. */
export class Probe {
  readonly #gaps: Gap[] = []
  readonly #tookMs: number[] = []
  readonly #ended: Promise<void>
  #askedAt: number | undefined
  #over = false

  constructor(ask: () => Promise<unknown>) {
    this.#ended = this.#go(ask)
  }

  gaps(): readonly Gap[] {
    if (this.#askedAt === undefined) return this.#gaps
    return [...this.#gaps, ...this.#gapOf(this.#askedAt, hostNow())]
  }

  async end(): Promise<void> {
    this.#over = true
    await this.#ended
  }

  async #go(ask: () => Promise<unknown>): Promise<void> {
    while (!this.#over) {
      const from = (this.#askedAt = hostNow())
      // An outage made by a test ends in a rejection; only its duration counts here.
      await ask().catch(() => undefined)
      this.#askedAt = undefined
      const to = hostNow()
      this.#gaps.push(...this.#gapOf(from, to))
      this.#tookMs.push(to - from)
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS).unref())
    }
  }

  #gapOf(from: number, to: number): Gap[] {
    const usualMs = this.#tookMs.toSorted((a, b) => a - b)[Math.floor(this.#tookMs.length / 2)] ?? 0
    const lostMs = to - from - usualMs
    return lostMs > USUAL_MS ? [{ from, to, lostMs }] : []
  }
}
