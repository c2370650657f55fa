import { channel } from 'node:diagnostics_channel'
import { withJson } from './json.ts'
import { outsideScopes } from './scope.ts'
import type { Holder } from './spi.ts'
import { invalid } from './validate.ts'

interface About {
  readonly lock: string
  readonly owner: string
}

interface AboutHold extends About {
  readonly fence: bigint
}

/** What a client tells about itself. The same objects go to the `node:diagnostics_channel` named `locks:` + key. */
export interface LockEvents {
  /** A lease was returned. `waitMs` counts from the call; `reentered` when it joined a hold of the same owner. */
  acquire: AboutHold & { readonly waitMs: number; readonly reentered: boolean }
  /** A hold ended in its last release. `error` when the store did not confirm it. */
  release: AboutHold & { readonly holdMs: number; readonly error?: unknown }
  /** A hold ended otherwise; every lease of it is void. */
  lost: AboutHold & { readonly holdMs: number; readonly error: unknown }
  /** A renewal is overdue, the lease still valid for `remainingMs`. */
  jeopardy: AboutHold & { readonly remainingMs: number; readonly cause?: unknown }
  /** An acquire found the lock taken, and waits or gives up. Once per acquire. */
  contended: About & { readonly holder?: Holder }
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
    outsideScopes(() => {
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
