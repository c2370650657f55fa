import { channel } from 'node:diagnostics_channel'
import { withJson } from './json.ts'
import type { Holder } from '../adapter/spi.ts'
import { invalid } from './validate.ts'

/** What an event is about. */
export interface EventSubject {
  readonly lock: string
  readonly owner: string
  /** The `label` of the acquire, if it has one. */
  readonly label?: string
  /** The name of the store in the config, or the option `store` of the client. */
  readonly store?: string
  /** The adapter's package, such as `@locks/redis`, where it says. */
  readonly adapter?: string
}

interface AboutHold extends EventSubject {
  readonly fence: bigint
}

/** How an acquire ended. */
export type AcquireEnd =
  /** With a lease. `reentered` when it joined a hold of the same owner. */
  | { readonly outcome: 'acquired'; readonly fence: bigint; readonly reentered: boolean }
  /** Without, since another holds the lock: at once (`busy`, also `null` of `tryAcquire`), or after the wait (`timeout`). */
  | { readonly outcome: 'busy' | 'timeout'; readonly holder?: Holder }
  /**
   * `unavailable`: the store failed or did not answer. `aborted`: the signal was aborted or the client closed. `lost`:
   * the hold it should have joined or resumed is over.
   */
  | { readonly outcome: 'unavailable' | 'aborted' | 'lost'; readonly error: unknown }

/** What a client tells about itself. The same objects go to the `node:diagnostics_channel` named `locks:` + key. */
export interface LockEvents {
  /**
   * An acquire, a try or a `resume` ended, once for each that was not refused for its arguments. `waitMs` counts from the
   * call, `attempts` are those made at the store: none where it only queued behind others of this client.
   */
  acquire: EventSubject & { readonly waitMs: number; readonly attempts: number } & AcquireEnd
  /** A hold ended in its last release. `error` when the store did not confirm it. */
  release: AboutHold & { readonly holdMs: number; readonly error?: unknown }
  /** A hold ended otherwise; every lease of it is void. */
  lost: AboutHold & { readonly holdMs: number; readonly error: unknown }
  /** A renewal is overdue, the lease still valid for `remainingMs`. */
  jeopardy: AboutHold & { readonly remainingMs: number; readonly cause?: unknown }
  /** An acquire found the lock taken, and waits or gives up. Once per acquire. */
  contended: EventSubject & { readonly holder?: Holder }
}

export type LockEventName = keyof LockEvents

const channels = {
  acquire: channel('locks:acquire'),
  release: channel('locks:release'),
  lost: channel('locks:lost'),
  jeopardy: channel('locks:jeopardy'),
  contended: channel('locks:contended'),
} as const satisfies Record<LockEventName, unknown>

type Listeners = { [K in LockEventName]: Set<(payload: LockEvents[K]) => void> }

export class Events {
  readonly #listeners: Listeners = {
    acquire: new Set(),
    release: new Set(),
    lost: new Set(),
    jeopardy: new Set(),
    contended: new Set(),
  }

  /** Calls into the program: outside the scopes of `with` callbacks, so that a listener does not re-enter their locks. */
  readonly outside: (call: () => void) => void

  constructor(outside: (call: () => void) => void) {
    this.outside = outside
  }

  on<K extends LockEventName>(event: K, listener: (payload: LockEvents[K]) => void): () => void {
    if (!Object.hasOwn(this.#listeners, event))
      throw invalid(`unknown event; known: ${Object.keys(this.#listeners).join(', ')}`)
    if (typeof listener !== 'function') throw invalid('a listener must be a function')
    // Wrapped, so that a listener given twice is called twice and removed one at a time.
    const own = (payload: LockEvents[K]): void => listener(payload)
    this.#listeners[event].add(own)
    return () => void this.#listeners[event].delete(own)
  }

  /** Asked before a payload is built, so that nobody listening costs nothing. */
  wanted(event: LockEventName): boolean {
    return channels[event].hasSubscribers || this.#listeners[event].size > 0
  }

  emit<K extends LockEventName>(event: K, payload: LockEvents[K]): void {
    withJson(payload)
    this.outside(() => {
      if (channels[event].hasSubscribers) channels[event].publish(payload)
      for (const listener of this.#listeners[event]) callListener(() => listener(payload))
    })
  }
}

/** A listener's mistake must neither break a lock nor be hidden: it surfaces as `diagnostics_channel` does it. */
function callListener(call: () => void): void {
  try {
    call()
  } catch (error) {
    process.nextTick(() => {
      throw error
    })
  }
}
