import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { Connection } from './network.ts'
import { remote } from './remote-adapter.ts'
import type { Stage } from './stage.ts'
import type { TrackedLease } from './tracked-lease.ts'
import { Process } from './virtual-clock.ts'

/** A call is answered this much after its time at the latest: timers are whole milliseconds. */
const MARGIN_MS = 5

/** A process with one client of the library in it. */
export class SimulatedClient {
  readonly stage: Stage
  readonly process: Process
  readonly connection: Connection
  readonly locks: Locks
  /** Leases in the hands of its tasks. */
  readonly leases = new Set<TrackedLease>()
  /** Names under which its leases go that may be handed over. */
  readonly aliases = new Set<string>()
  /** Calls of its tasks that are not settled. */
  readonly calls = new Set<string>()
  /** Holds whose release was not confirmed, though `with` does not say so. */
  readonly unconfirmed = new Set<bigint>()
  closing = false
  #called = 0

  constructor(stage: Stage, id: string) {
    const { world, random, host, journal, sabotage, storeTimeoutMs } = stage
    this.stage = stage
    const process = (this.process = new Process(world, id, random.between(0.996, 1.004)))
    process.onStall = (from, until) => journal.fault(`stall ${id}`, from, until)
    this.connection = new Connection(world, process, host, random.pick(150, 400, Infinity))
    const factory = remote(this.connection, host, {
      waitsHang: random.chance(0.3),
      onRenewed: () => this.sample(),
      datesByReceipt: sabotage.datesByReceipt ?? false,
    })
    const retry = { delayMs: 10, maxDelayMs: 100 }
    this.locks = createLocks(factory, { storeTimeoutMs, clock: process.clock, retry })
    this.locks.on('release', ({ fence, error }) => void (error === undefined || this.unconfirmed.add(fence)))
  }

  get running(): boolean {
    return !this.process.crashed && !this.closing && !this.stage.ending
  }

  /** Notes the deadlines that a renewal may have moved. */
  sample(): void {
    this.process.steadily(() => {
      for (const lease of this.leases) lease.sample()
    })
  }

  /**
   * Holds a call to its time: `limitMs` of its own clock, and whatever the process was stopped for. After each second
   * of that the store has another one, for the answer that may not be read yet.
   */
  async timed<T>(what: string, limitMs: number, call: Promise<T>): Promise<T> {
    const { process, stage } = this
    const from = process.now
    const { stoppedMs } = process
    const id = `${what} #${++this.#called} of ${process.id}`
    this.calls.add(id)
    try {
      return await call
    } finally {
      this.calls.delete(id)
      const pausedMs = process.stoppedMs - stoppedMs
      const tookMs = process.now - from - pausedMs
      const sparedMs = Math.floor(pausedMs / 1_000) * 1_000
      if (tookMs > process.trueMs(limitMs + sparedMs) + MARGIN_MS + process.timersLateMs)
        stage.journal.problem('settlement', `${id} at ${from} took ${tookMs} ms, of ${limitMs} at most`)
    }
  }

  /** Kills it. */
  crash(): void {
    const { journal, world } = this.stage
    this.process.crash(() => {
      for (const victim of [this.process.id, ...this.aliases])
        journal.record({ type: 'crash', t: world.now, process: 'faults', victim })
    })
  }

  /** Ends it in an orderly way. Holds are released, waits end, within bounds. */
  async close(): Promise<void> {
    this.closing = true
    // It may be stopped half-way, with the releases sent and the signals not aborted yet.
    for (const lease of this.leases) lease.lost()
    try {
      await this.timed('close', 3 * this.stage.storeTimeoutMs, this.locks.close())
    } catch (error) {
      this.stage.expectCode(error, 'close', 'LOCK_UNAVAILABLE')
    }
  }
}
