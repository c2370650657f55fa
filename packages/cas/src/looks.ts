import type { LockState, Versioned, VersionedStore } from '@locks/core/adapter'
import { errors } from './errors.ts'
import { blockedMs, fenceOf } from './observations.ts'
import type { Observations } from './observations.ts'
import { decode, holderOf, nameOfHeld } from './record.ts'

/** What records say about holders, without changing them. */
export class Looks {
  readonly #store: VersionedStore
  readonly #seen: Observations

  constructor(store: VersionedStore, seen: Observations) {
    this.#store = store
    this.#seen = seen
  }

  /** The store's clock. */
  async now(name: string): Promise<number> {
    if (this.#store.now === undefined)
      throw errors.unsupported('minHoldMs needs a clock, which this store does not have')
    return this.#store.now(name)
  }

  /** Whether other processes saw the record of a name earlier than this one. */
  async recall(name: string): Promise<boolean> {
    const at = this.#seen.of(name)
    if (this.#store.seenForMs === undefined || at?.value === undefined || at.version === undefined)
      return false
    let ms = 0
    try {
      ms = await this.#store.seenForMs(name, { value: at.value, version: at.version })
    } catch {
      // The record itself is valid without it: the lock is held.
    }
    this.#seen.backdate(name, at, ms)
    return ms > 0
  }

  /** Whether a name that stays taken after its release has been so for a while, by the store's clock. */
  async recallKept(name: string): Promise<boolean> {
    const at = this.#seen.of(name)
    if (at?.held?.keptUntil === undefined) return false
    const { keptUntil, ttlMs } = at.held
    const ms = Math.min(ttlMs, (await this.now(name)) - (keptUntil - ttlMs))
    this.#seen.backdate(name, at, Math.max(0, ms))
    return ms > 0
  }

  async inspect(name: string, current: Versioned | undefined): Promise<LockState> {
    const state = this.#stateOf(name, current)
    return state.held && (await this.recallKept(name)) ? this.#stateOf(name, current) : state
  }

  async list(all: AsyncIterable<Versioned>, limit: number): Promise<LockState[]> {
    const found = new Map<string, LockState>()
    for await (const current of all) {
      const name = nameOfHeld(current.value)
      const state = name === undefined ? undefined : await this.inspect(name, current)
      if (state?.held) found.set(state.name, state)
      if (found.size >= limit) break
    }
    return [...found.values()]
  }

  /** Whether a record may be dropped: it is free, or an attempt could take it over. */
  readonly isOver = (current: Versioned): boolean => {
    if (decode(current.value) === undefined) return true
    const name = nameOfHeld(current.value)
    return name !== undefined && this.#seen.blocking(this.#seen.note(name, current)) === undefined
  }

  #stateOf(name: string, current: Versioned | undefined): LockState {
    const at = this.#seen.note(name, current)
    const held = this.#seen.blocking(at)
    if (held === undefined) return { name, held: false }
    const remainingMs = this.#seen.remainingMs(at, blockedMs(held))
    return { name, held: true, holder: holderOf(held, fenceOf(at, held)), remainingMs }
  }
}
