import { setMaxListeners } from 'node:events'
import { isLockError } from '@locks/core'
import type { Lease } from '@locks/core'
import type { SimulatedClient } from './client.ts'

/**
 * Who acts, as the history names it. A lease that may be handed over has a process name of its own,
 * which it keeps: the history knows a hold by it, and it ends with the holder of the lease.
 */
export interface Identity {
  readonly process: string
  readonly task: string
  readonly owner?: string
}

/** A lease in the hands of a task, with all its doings in the journal. */
export class TrackedLease {
  readonly lease: Lease
  readonly who: Identity
  readonly #client: SimulatedClient
  #deadline = 0
  #unconfirmed = false

  constructor(client: SimulatedClient, lease: Lease, who: Identity, event: 'granted' | 'renewed') {
    this.#client = client
    this.lease = lease
    this.who = who
    this.#recordDeadline(event)
    client.leases.add(this)
    // Leases of a hold that many tasks share have one signal.
    setMaxListeners(0, lease.signal)
    lease.signal.addEventListener('abort', () => this.lost(), { once: true })
    if (lease.signal.aborted) this.lost()
  }

  get valid(): boolean {
    return this.lease.state === 'held' || this.lease.state === 'jeopardy'
  }

  lost(): void {
    this.#record({ type: 'lost' })
  }

  /** Notes a deadline that has moved. */
  sample(): void {
    if (this.lease.remainingMs > 0) this.#recordDeadline('renewed')
  }

  /** One protected operation, unless the lease is over. The process may be stopped between check and write. */
  write(stallMs: number): void {
    const { process, stage } = this.#client
    process.steadily(() => this.sample())
    const t = process.now
    try {
      if (!stage.sabotage.uncheckedWrites) this.lease.assertHeld()
    } catch (error) {
      return stage.expectCode(error, 'assertHeld', 'LOCK_LOST', 'LOCK_NOT_OWNED', 'LOCK_CLOSED')
    }
    this.#record({ type: 'protected', t })
    if (stallMs > 0) process.stall(stallMs)
    stage.write(process, this.lease.name, this.lease.fence)
  }

  async extend(ttlMs: number | undefined): Promise<void> {
    const { process, stage } = this.#client
    const extended = this.#client.timed('extend', stage.storeTimeoutMs, this.lease.extend(ttlMs))
    process.steadily(() => this.sample())
    try {
      await extended
    } catch (error) {
      stage.expectCode(error, 'extend', 'LOCK_LOST', 'LOCK_UNAVAILABLE', 'LOCK_CLOSED', 'LOCK_NOT_OWNED')
    }
    process.steadily(() => this.sample())
  }

  async release(): Promise<void> {
    this.releaseCalled()
    try {
      await this.#client.timed('release', this.#client.stage.storeTimeoutMs, this.lease.release())
    } catch (error) {
      return this.releaseFailed(error)
    }
    this.released()
  }

  /** One more than it was acquired: an error, and nothing else. */
  async releaseOnceTooOften(): Promise<void> {
    const { stage, process } = this.#client
    if (this.lease.state !== 'released') return
    try {
      await this.lease.release()
    } catch (error) {
      return stage.expectCode(
        error,
        'second release',
        'LOCK_NOT_OWNED',
        'LOCK_UNAVAILABLE',
        'LOCK_LOST',
        'LOCK_CLOSED',
      )
    }
    if (!this.#unconfirmed)
      stage.journal.problem('balance', `${process.id} released ${this.lease.name} twice`)
  }

  /** The lease as text for another client, unless it is over or re-entered. */
  serialize(): string | undefined {
    const { process } = this.#client
    let text: string
    process.steadily(() => this.sample())
    try {
      text = this.lease.serialize()
    } catch (error) {
      this.#client.stage.expectCode(error, 'serialize', 'LOCK_LOST', 'LOCK_UNSUPPORTED', 'LOCK_CLOSED')
      return undefined
    }
    // Until it is resumed, no client relies on it.
    this.#record({ type: 'renewed', deadline: Math.min(process.now, this.#deadline) })
    this.#client.leases.delete(this)
    this.#client.aliases.delete(this.who.process)
    return text
  }

  releaseCalled(): void {
    this.#record({ type: 'release-called' })
    this.#client.leases.delete(this)
  }

  released(): void {
    this.#record({ type: 'released' })
  }

  releaseFailed(error: unknown): void {
    const code = isLockError(error) ? error.code : 'unknown'
    this.#unconfirmed = code === 'LOCK_UNAVAILABLE'
    this.#record({ type: 'release-failed', code })
    this.#client.stage.expectCode(error, 'release', 'LOCK_LOST', 'LOCK_UNAVAILABLE', 'LOCK_CLOSED')
  }

  #recordDeadline(type: 'granted' | 'renewed'): void {
    const { process } = this.#client
    const remainingMs = process.steadily(() => this.lease.remainingMs)
    const deadline = process.now + process.trueMs(remainingMs)
    if (type === 'renewed' && Math.abs(deadline - this.#deadline) < 1e-3) return
    this.#deadline = deadline
    this.#record({ type, deadline })
  }

  #record(
    entry:
      | { type: 'granted' | 'renewed'; deadline: number }
      | { type: 'release-called' | 'released' | 'lost' }
      | { type: 'release-failed'; code: string }
      | { type: 'protected'; t: number },
  ): void {
    const { name, fence } = this.lease
    this.#client.stage.journal.record({ t: this.#client.process.now, name, fence, ...this.who, ...entry })
  }
}
