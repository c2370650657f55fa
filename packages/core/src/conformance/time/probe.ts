import { hostNow } from './heartbeat.ts'
import type { Gap } from './heartbeat.ts'

const PAUSE_MS = 100
/** What an answer may vary by while nothing is wrong. */
const USUAL_MS = 20

/** Asks a store at an interval. What an answer takes beyond the usual counts as lost: somewhere, something stood still. */
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
      // An outage that a test makes ends as a rejection; how long it took is all that counts here.
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
