import type { Clock, Versioned } from '@locks/core/adapter'
import { decode } from './record.ts'
import type { Held } from './record.ts'

/** The last observed record of a name, and since when it is unchanged. */
export interface Observation {
  /** Undefined when there is no record. */
  readonly version: bigint | undefined
  readonly value: string | undefined
  readonly held: Held | undefined
  /** On the monotonic clock, from after the answer: the holder's own count began before that. */
  readonly since: number
}

/** How long a record must stand still before its holder may be dead. */
export function blockedMs({ ttlMs, lockDelayMs }: Held): number {
  return ttlMs + lockDelayMs
}

export function fenceOf({ version }: Observation, { fence }: Held): bigint {
  return fence ?? version ?? 0n
}

/** As many names as one process is likely to use; an older one only loses its observation. */
const MAX_NAMES = 10_000

/**
 * What was seen of each name, for all clients of this process on one store and one clock. It outlives the calls, so
 * that a caller that never waits can take over from a dead holder.
 */
export class Observations {
  readonly #clock: Clock
  readonly #seen = new Map<string, Observation>()
  /** The last hint about a name. Anyone may have sent it: it counts once the store has shown the same record. */
  readonly #hinted = new Map<string, Observation>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  of(name: string): Observation | undefined {
    return this.#seen.get(name)
  }

  /** Notes what was read or written just now. A record that changed is observed from now on. */
  note(name: string, current: Versioned | undefined): Observation {
    const known = [this.#seen.get(name), this.#hinted.get(name)].find((one) => isOf(one, current))
    const now = known ?? this.#observed(current)
    if (isOf(this.#hinted.get(name), current)) this.#hinted.delete(name)
    keep(this.#seen, name, now)
    return now
  }

  /** Keeps a hint, and returns it. It decides nothing except when to look. */
  hint(name: string, current: Versioned): Observation {
    const seen = this.#seen.get(name)
    if (isOf(seen, current)) return seen
    const hinted = this.#hinted.get(name)
    const now = isOf(hinted, current) ? hinted : this.#observed(current)
    keep(this.#hinted, name, now)
    return now
  }

  /** Notes that a record has been there for `ms` already, if it is still the last one seen. */
  backdate(name: string, at: Observation, ms: number): void {
    if (this.#seen.get(name) !== at) return
    this.#seen.set(name, { ...at, since: Math.min(at.since, this.#clock.now() - ms) })
  }

  /** Whether this record has stood still for that long. */
  stoodStill({ since }: Observation, ms: number): boolean {
    return this.#clock.now() - since >= ms
  }

  /** The hold that blocks the name, if any. One that stood still for its whole length is over. */
  blocking(at: Observation): Held | undefined {
    return at.held !== undefined && this.stoodStill(at, blockedMs(at.held)) ? undefined : at.held
  }

  remainingMs({ since }: Observation, ms: number): number {
    return Math.max(0, since + ms - this.#clock.now())
  }

  #observed(current: Versioned | undefined): Observation {
    const { value, version } = current ?? { value: undefined, version: undefined }
    const held = value === undefined ? undefined : decode(value)
    return { version, value, held, since: this.#clock.now() }
  }
}

/** Compares both: a key that was deleted and created again may have an old version with another holder. */
function isOf(at: Observation | undefined, current: Versioned | undefined): at is Observation {
  return at !== undefined && at.version === current?.version && at.value === current?.value
}

function keep(all: Map<string, Observation>, name: string, at: Observation): void {
  all.delete(name)
  all.set(name, at)
  if (all.size > MAX_NAMES) for (const oldest of all.keys()) return void all.delete(oldest)
}
