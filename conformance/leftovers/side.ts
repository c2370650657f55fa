import { createLocks } from '@locks/core'
import { loadAdapter } from '@locks/core/adapter'
import type { Locks, LocksOptions } from '@locks/core'
import { join } from 'node:path'
import { setTimeout as pass } from 'node:timers/promises'
import { cpuMsOf } from './cpu.ts'
import type { Store } from './stores.ts'

/** So many names are in use at the same time. */
const TASKS = 64
/** A busy machine makes it slow, and is no reason to end it. */
const PATIENCE_MS = 60_000
/** Longer than one step of pruning takes. */
const PAUSE_MS = 250
/** One name in so many comes back in the end. */
const RETURNING = 1_000

/** What a side has done and spent until now. */
export interface Spent {
  readonly names: number
  readonly clientMs: number
  readonly serversMs: number
}

interface Core {
  openLocks(config: Store['config'], options: LocksOptions): Promise<Locks>
}

async function coreIn(folder: string): Promise<Core> {
  const module: unknown = await import(join(folder, 'packages/core/dist/index.js'))
  if (!isCore(module)) throw new Error(`${folder} has no core that opens locks`)
  return module
}

function isCore(module: unknown): module is Core {
  return typeof module === 'object' && module !== null && 'openLocks' in module
}

/** One client that uses each name once, and never an earlier one. */
export class Side {
  readonly locks: Locks
  readonly store: Store
  readonly #fences = new Map<string, bigint>()
  /** When how many names had been used. */
  readonly #progress: { readonly at: number; readonly used: number }[] = []
  #used = 0
  #clientMs = 0

  private constructor(locks: Locks, store: Store) {
    this.locks = locks
    this.store = store
  }

  /** A client of this version, or of the one that is built in the folder `before`. */
  static async open(store: Store, config: Store['config'], before?: string): Promise<Side> {
    const options = { storeTimeoutMs: PATIENCE_MS }
    if (before === undefined) return new Side(createLocks(await loadAdapter(config), options), store)
    return new Side(await (await coreIn(before)).openLocks(config, options), store)
  }

  get used(): number {
    return this.#used
  }

  /** Names that were taken in the last so many milliseconds, turns of the other side included. */
  usedWithin(ms: number): number {
    const before = performance.now() - ms
    return this.#used - (this.#progress.findLast(({ at }) => at <= before)?.used ?? 0)
  }

  /**
   * Uses names for so long, or until `most` are used, then pauses: what the client has begun about idle names ends in
   * its own turn. Returns the names per second.
   */
  async turn(turnMs: number, most: number, signal: AbortSignal): Promise<number> {
    const [from, since, cpu] = [this.#used, performance.now(), process.cpuUsage()]
    const work = async (): Promise<void> => {
      while (this.#used < most && performance.now() < since + turnMs && !signal.aborted) await this.#useNext()
    }
    await Promise.all(Array.from({ length: TASKS }, work))
    const perSecond = ((this.#used - from) / (performance.now() - since)) * 1_000
    await pass(PAUSE_MS)
    const { user, system } = process.cpuUsage(cpu)
    this.#clientMs += (user + system) / 1_000
    return perSecond
  }

  /** CPU time of the client in its turns, and of its servers at all times. */
  async spent(): Promise<Spent> {
    return { names: this.#used, clientMs: this.#clientMs, serversMs: await cpuMsOf(this.store.pids) }
  }

  /** Names that come back: how often, and those whose fence is not above the earlier one. */
  async comeBack(): Promise<{ readonly names: number; readonly notHigher: readonly string[] }> {
    const notHigher: string[] = []
    for (const [name, before] of this.#fences)
      await this.locks.with(name, ({ fence }) => {
        if (fence <= before) notHigher.push(`${name}: ${fence} after ${before}`)
      })
    return { names: this.#fences.size, notHigher }
  }

  async #useNext(): Promise<void> {
    const n = this.#used++
    if (n % 100 === 0) this.#progress.push({ at: performance.now(), used: n })
    const name = `order:${n}`
    await this.locks.with(name, ({ fence }) => {
      if (n % RETURNING === 0) this.#fences.set(name, fence)
    })
  }
}
