import type { VersionedStore } from '@locks/core/adapter'
import { errors } from './errors.ts'
import type { Observation, Observations } from './observations.ts'

/** What to do about a record: answer the caller, or replace it and answer then. */
export type Decision<T> = { readonly answer: T } | Write<T>

export interface Write<T> {
  /** Unlike every other write, so that one whose answer was lost is recognised. */
  readonly write: string
  readonly durable: boolean
  /** The store may drop it after so long. */
  readonly idleMs?: number
  /** Replaces another client's record, so only over what was seen during this call. */
  readonly careful?: boolean
  readonly done: (version: bigint) => T
}

/** For a caller that has to know which of its puts were never answered. */
export interface Trace {
  sending(expected: bigint | undefined): void
  answered(): void
}

export type Change = <T>(name: string, decide: (at: Observation) => Decision<T>, trace?: Trace) => Promise<T>

/** Each lost race is another client's progress, so this many in a row mean something else. */
const MAX_TRIES = 32

/**
 * One change of a name's record by compare-and-set. It starts from what was last seen, so that a warm cache saves the
 * read: a put confirms that this was still true. An answer without a put needs a look first.
 */
export function changeOf(store: VersionedStore, seen: Observations): Change {
  return async (name, decide, trace) => {
    let fresh = false
    // A name never seen is likely to be new: then its first put is also its first look.
    let at = seen.of(name) ?? { version: undefined, value: undefined, held: undefined, since: 0 }
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const decision = decide(at)
      if (!fresh && ('answer' in decision || decision.careful === true)) {
        at = seen.note(name, await store.get(name))
        fresh = true
        continue
      }
      if ('answer' in decision) return decision.answer
      const { write, durable, idleMs, done } = decision
      trace?.sending(at.version)
      const put = await store.put(name, write, at.version, durable, idleMs)
      trace?.answered()
      if ('version' in put) {
        seen.note(name, { value: write, version: put.version })
        return done(put.version)
      }
      at = seen.note(name, put.current)
      fresh = true
      // The put had arrived, and only its answer was lost.
      if (put.current?.value === write) return done(put.current.version)
    }
    throw errors.unavailable(
      `the record changed ${MAX_TRIES} times during one step, so nothing was done; try again`,
    )
  }
}
