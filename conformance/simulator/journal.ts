import { createHash } from 'node:crypto'
import type { HistoryEvent, Invariant } from '@locks/core/conformance'

/** `settlement`: a call took longer than it may. `leftovers`: something was left behind. */
export interface Problem {
  readonly check: Invariant | 'outcomes' | 'settlement' | 'leftovers'
  readonly message: string
}

/** Everything that happened in a run, in true time. */
export class Journal {
  readonly events: HistoryEvent[] = []
  readonly problems: Problem[] = []
  grants = 0
  /** When the last fault is over. */
  quietFrom = 0
  #faults = 0

  record(event: HistoryEvent): void {
    this.events.push(event)
    if (event.type === 'granted') this.grants += 1
  }

  problem(check: Problem['check'], message: string): void {
    this.problems.push({ check, message })
  }

  fault(kind: string, from: number, until: number): void {
    this.quietFrom = Math.max(this.quietFrom, until)
    const label = `${kind} #${++this.#faults}`
    const about = { type: 'fault', class: 'E', process: 'faults', label } as const
    this.events.push({ ...about, phase: 'begin', t: from }, { ...about, phase: 'end', t: until })
  }

  hash(): string {
    const hash = createHash('sha256')
    const text = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}n` : value)
    for (const event of this.events) hash.update(JSON.stringify(event, text))
    return hash.digest('hex')
  }
}
