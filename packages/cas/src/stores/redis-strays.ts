import { batchesOf } from '@locks/core/adapter'
import type { Versioned } from '@locks/core/adapter'

/** How many pages of keys one pass looks through, where the keys of others may be millions. */
const PAGES = 10

/** How many records are watched. */
const MOST = 1_000

/** How many records are read at a time. */
const BATCH = 100

/** How many keys of others are looked at: each look makes the server keep such a key for longer, where it evicts. */
const MOST_FOREIGN = 100

type IsOver = (current: Versioned) => boolean

export interface StrayStore {
  /** Keys that may have a record, a page at a time. */
  readonly pages: () => AsyncGenerator<readonly string[]>
  readonly look: (key: string) => Promise<Versioned | undefined>
  readonly now: () => Promise<number>
  /** Drops a record if it is still at that version and older than `idleMs`. */
  readonly drop: (key: string, current: Versioned, idleMs: number) => Promise<boolean>
}

/**
 * Records of holders that crashed, searched for by sampling: each pass looks at those that it found before, and then
 * goes on through the keys. Such a record must not expire by itself: a server's clock that jumps ahead would end a hold
 * that is alive. It is dropped by the first client that saw it stand still for its whole length. Where most keys belong
 * to others, the search ends for good.
 */
export class Strays {
  readonly #store: StrayStore
  /** Keys whose record was not renewed for long. */
  readonly #watched = new Set<string>()
  #pages: AsyncGenerator<readonly string[]> | undefined
  /** How many of the keys that were looked at are records, and how many are not. */
  readonly #seen = { records: 0, foreign: 0 }

  constructor(store: StrayStore) {
    this.#store = store
  }

  async *prune(idleMs: number, isOver: IsOver): AsyncGenerator<number, void> {
    // What was written later than this is in use.
    const before = BigInt(Math.floor(((await this.#store.now()) - idleMs) * 1_000))
    for (const batch of batchesOf([...this.#watched], BATCH))
      yield await this.#lookAt(batch, before, idleMs, isOver)
    for (let pages = 0; pages < PAGES && this.#watched.size < MOST && !this.#isAmongOthers(); pages += 1) {
      const page = await this.#nextPage()
      if (page === undefined) return
      for (const batch of batchesOf(page, BATCH)) {
        if (this.#isAmongOthers()) return
        yield await this.#lookAt(batch, before, idleMs, isOver)
      }
    }
  }

  #isAmongOthers(): boolean {
    const { records, foreign } = this.#seen
    return foreign >= MOST_FOREIGN && foreign > records
  }

  /** Undefined after the last one; the next pass begins with the first. */
  async #nextPage(): Promise<readonly string[] | undefined> {
    const pages = (this.#pages ??= this.#store.pages())
    try {
      const next = await pages.next()
      if (next.done !== true) return next.value
    } catch (error) {
      this.#pages = undefined
      throw error
    }
    this.#pages = undefined
    return undefined
  }

  async #lookAt(keys: readonly string[], before: bigint, idleMs: number, isOver: IsOver): Promise<number> {
    const dropped = await Promise.all(
      keys.map(async (key) => {
        const current = await this.#store.look(key)
        this.#seen[current === undefined ? 'foreign' : 'records'] += 1
        if (current === undefined || current.version >= before) return void this.#watched.delete(key)
        // The first look begins to watch it.
        if (!isOver(current)) return void (this.#watched.size < MOST && this.#watched.add(key))
        this.#watched.delete(key)
        return this.#store.drop(key, current, idleMs)
      }),
    )
    return dropped.filter((one) => one === true).length
  }
}
