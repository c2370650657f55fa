import type { Process } from './virtual-clock.ts'

/** Something that will happen, unless it is cancelled. */
export class Occurrence {
  at: number
  order: number
  cancelled = false
  readonly run: () => void
  readonly process: Process | undefined

  constructor(at: number, order: number, run: () => void, process: Process | undefined) {
    this.at = at
    this.order = order
    this.run = run
    this.process = process
  }

  cancel(): void {
    this.cancelled = true
  }
}

/** Occurrences by time, those of one time in the order they were added: a binary heap. */
export class EventQueue {
  readonly #heap: Occurrence[] = []
  #added = 0

  add(at: number, run: () => void, process?: Process): Occurrence {
    const occurrence = new Occurrence(at, ++this.#added, run, process)
    this.#push(occurrence)
    return occurrence
  }

  /** Puts one that was taken back, behind those already there for that time. */
  defer(occurrence: Occurrence, at: number): void {
    occurrence.at = at
    occurrence.order = ++this.#added
    this.#push(occurrence)
  }

  take(): Occurrence | undefined {
    for (;;) {
      const first = this.#heap[0]
      const last = this.#heap.pop()
      if (first === undefined || last === undefined) return undefined
      if (first !== last) this.#sink(last)
      if (!first.cancelled) return first
    }
  }

  #push(occurrence: Occurrence): void {
    const heap = this.#heap
    let place = heap.push(occurrence) - 1
    while (place > 0) {
      const above = (place - 1) >> 1
      const parent = heap[above]
      if (parent === undefined || !isBefore(occurrence, parent)) break
      heap[place] = parent
      place = above
    }
    heap[place] = occurrence
  }

  #sink(occurrence: Occurrence): void {
    const heap = this.#heap
    let place = 0
    for (;;) {
      let below = 2 * place + 1
      const right = heap[below + 1]
      let child = heap[below]
      if (child === undefined) break
      if (right !== undefined && isBefore(right, child)) {
        child = right
        below += 1
      }
      if (!isBefore(child, occurrence)) break
      heap[place] = child
      place = below
    }
    heap[place] = occurrence
  }
}

function isBefore(a: Occurrence, b: Occurrence): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}
