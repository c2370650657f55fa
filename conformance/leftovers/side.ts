import { createLocks } from '@locks/core'
import { loadAdapter } from '@locks/core/adapter'
import type { Locks } from '@locks/core'
import { cpuMsOf } from './cpu.ts'
import type { Store } from './stores.ts'

/** So many names are in use at the same time. */
const TASKS = 64
/** A busy machine makes it slow, and is no reason to end it. */
const PATIENCE_MS = 60_000
/** One name in so many comes back in the end. */
const RETURNING = 5_000

/** How fast names were used in one slice of time. */
export interface Slice {
  readonly names: number
  readonly perSecond: number
}

/** One client that uses each name once, and never an earlier one. */
export class Side {
  readonly locks: Locks
  readonly store: Store
  readonly #fences = new Map<string, bigint>()
  /** When how many names had been used. */
  readonly #progress: { readonly at: number; readonly used: number }[] = []
  #used = 0
  #spentMs = 0
  #clientCpuMs = 0
  readonly #serverCpuMsBefore: number

  private constructor(locks: Locks, store: Store, serverCpuMs: number) {
    this.locks = locks
    this.store = store
    this.#serverCpuMsBefore = serverCpuMs
  }

  static async open(store: Store, config: Store['config']): Promise<Side> {
    return new Side(
      createLocks(await loadAdapter(config), { storeTimeoutMs: PATIENCE_MS }),
      store,
      await cpuMsOf(store.pids),
    )
  }

  /**
   * CPU time of this client in its slices, and of its servers all the time: what they do about idle names while the
   * other side has its turn counts too.
   */
  async cpuMicrosPerName(): Promise<number> {
    const servers = (await cpuMsOf(this.store.pids)) - this.#serverCpuMsBefore
    return ((this.#clientCpuMs + servers) / this.#used) * 1_000
  }

  get used(): number {
    return this.#used
  }

  get perSecond(): number {
    return (this.#used / this.#spentMs) * 1_000
  }

  /** Names that were taken in the last so many milliseconds of all time, not only of this side's slices. */
  usedWithin(ms: number): number {
    const before = performance.now() - ms
    return this.#used - (this.#progress.findLast(({ at }) => at <= before)?.used ?? 0)
  }

  /** Uses names for so long, or until `most` are used. */
  async slice(sliceMs: number, most: number, signal: AbortSignal): Promise<Slice> {
    const [from, since] = [this.#used, performance.now()]
    const end = since + sliceMs
    const cpu = process.cpuUsage()
    const work = async (): Promise<void> => {
      while (this.#used < most && performance.now() < end && !signal.aborted) await this.#useNext()
    }
    await Promise.all(Array.from({ length: TASKS }, work))
    const spentMs = performance.now() - since
    this.#spentMs += spentMs
    const { user, system } = process.cpuUsage(cpu)
    this.#clientCpuMs += (user + system) / 1_000
    return { names: this.#used - from, perSecond: ((this.#used - from) / spentMs) * 1_000 }
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
