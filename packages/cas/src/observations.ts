import type { Clock } from '@locks/core/adapter'
import { decode } from './record.ts'
import type { Held } from './record.ts'
import type { Versioned } from './versioned-store.ts'

/** What a name's record was when somebody here last looked, and since when it is known to be that. */
export interface Observation {
  /** Undefined when there is no record. */
  readonly version: bigint | undefined
  readonly value: string | undefined
  readonly held: Held | undefined
  /** On the monotonic clock, from after the answer: the holder's own count began before that. */
  readonly since: number
}

/** As many names as one process is likely to work with; an older one only loses what was seen of it. */
const MAX_NAMES = 10_000

/**
 * What has been seen of each name, for all clients of this process on one store and one clock. It
 * outlives the calls that saw it, so that a caller who only ever tries can take over from the dead.
 */
export class Observations {
  readonly #clock: Clock
  readonly #seen = new Map<string, Observation>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  of(name: string): Observation | undefined {
    return this.#seen.get(name)
  }

  /** Notes what was read or written just now. The watch over a record starts again when it is another. */
  note(name: string, current: Versioned | undefined): Observation {
    const before = this.#seen.get(name)
    const { value, version } = current ?? { value: undefined, version: undefined }
    // Both: when a key was deleted and made again, another holder may come by an old version.
    const same = before !== undefined && before.version === version && before.value === value
    const held = same ? before.held : value === undefined ? undefined : decode(value)
    const now = same ? before : { version, value, held, since: this.#clock.now() }
    this.#seen.delete(name)
    this.#seen.set(name, now)
    if (this.#seen.size > MAX_NAMES) for (const oldest of this.#seen.keys()) return this.#forget(oldest, now)
    return now
  }

  /** Adds that a record has been there for `ms` already, if it is still what was seen last. */
  backdate(name: string, at: Observation, ms: number): void {
    if (this.#seen.get(name) !== at) return
    this.#seen.set(name, { ...at, since: Math.min(at.since, this.#clock.now() - ms) })
  }

  /** Whether this record has stood still for that long. */
  stoodStill({ since }: Observation, ms: number): boolean {
    return this.#clock.now() - since >= ms
  }

  remainingMs({ since }: Observation, ms: number): number {
    return Math.max(0, since + ms - this.#clock.now())
  }

  #forget(name: string, kept: Observation): Observation {
    this.#seen.delete(name)
    return kept
  }
}
