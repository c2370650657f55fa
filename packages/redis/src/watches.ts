import type { Connection } from './connection.ts'
import { Subscriber } from './subscriber.ts'

/** Gets each message; undefined where messages may have been missed. */
export type Watcher = (text: string | undefined) => void

export interface Watch {
  /** Whether messages arrive; they may have been missed until then. */
  readonly live: Promise<boolean>
  readonly stop: () => void
}

/** Subscriptions that any number of watchers share. */
export class Watches {
  readonly #subscriber: Subscriber
  readonly #watchers = new Map<string, Set<Watcher>>()

  constructor(connection: Connection, options?: { readonly sharded: boolean }) {
    const notify = (channel: string, text?: string): void =>
      this.#watchers.get(channel)?.forEach((watcher) => watcher(text))
    this.#subscriber = new Subscriber(
      connection,
      { message: notify, gap: (channels) => channels.forEach((channel) => notify(channel)) },
      options,
    )
  }

  watch(channel: string, watcher: Watcher): Watch {
    const watchers = this.#watchers.get(channel) ?? new Set()
    this.#watchers.set(channel, watchers.add(watcher))
    return {
      live: this.#subscriber.subscribe(channel),
      stop: () => {
        watchers.delete(watcher)
        if (watchers.size > 0 || this.#watchers.get(channel) !== watchers) return
        this.#watchers.delete(channel)
        this.#subscriber.unsubscribe(channel)
      },
    }
  }

  close(): void {
    this.#subscriber.close()
  }
}
