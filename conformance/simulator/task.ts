import { isLockError } from '@locks/core'
import type { Lease } from '@locks/core'
import { chooseAcquire, chooseSteps, LONGEST_TTL_MS } from './choices.ts'
import type { Choice } from './choices.ts'
import type { SimulatedClient } from './client.ts'
import { TrackedLease } from './tracked-lease.ts'
import type { Identity } from './tracked-lease.ts'

/** One line of work in a client: it acquires, holds, writes and releases until the client ends. */
export class Task {
  readonly #client: SimulatedClient
  readonly #id: string
  #aliases = 0
  readonly #changedMind = new Error('the caller changed its mind')

  constructor(client: SimulatedClient, id: string) {
    this.#client = client
    this.#id = id
  }

  async run(): Promise<void> {
    const { process, stage } = this.#client
    while (this.#client.running) {
      await process.sleep(stage.random.between(0, 60))
      if (!this.#client.running) return
      const choice = chooseAcquire(stage.random, stage.names, `shared by ${process.id}`)
      if (choice.kind === 'with') await this.#with(choice)
      else await this.#plain(choice)
    }
  }

  /** Goes on with a lease that another client gave up. Answers whether it could. */
  async resume(text: string, who: Identity): Promise<boolean> {
    const { locks, stage } = this.#client
    let lease: Lease
    try {
      lease = await this.#client.timed('resume', stage.storeTimeoutMs, locks.resume(text))
    } catch (error) {
      stage.expectCode(error, 'resume', 'LOCK_LOST', 'LOCK_UNAVAILABLE', 'LOCK_CLOSED')
      return false
    }
    // The process may have been stopped with the answer on its way.
    if (this.#client.process.steadily(() => lease.state === 'lost')) return false
    this.#client.aliases.add(who.process)
    const tracked = new TrackedLease(this.#client, lease, who, 'renewed')
    await this.#work(tracked, undefined)
    await tracked.release()
    return true
  }

  async #plain(choice: Choice): Promise<void> {
    const lease = await this.#acquire(choice, this.#who(choice))
    if (lease === undefined) return
    await this.#work(lease, choice.options.owner === undefined ? undefined : choice)
    if (choice.end === 'forget') return
    if (choice.end === 'hand over' && this.#handOver(lease)) return
    await lease.release()
    if (choice.end === 'release twice') await lease.releaseOnceTooOften()
  }

  async #with(choice: Choice): Promise<void> {
    const { locks, process, stage, unconfirmed } = this.#client
    const who = this.#who(choice)
    const calledAt = this.#called(choice.name, who)
    let tracked: TrackedLease | undefined
    let lost = false
    try {
      await locks.with(choice.name, { ...choice.options, waitMs: choice.waitMs }, async (lease) => {
        tracked = new TrackedLease(this.#client, lease, who, 'granted')
        await this.#work(tracked, choice)
        lost = process.steadily(() => lease.state === 'lost')
        tracked.releaseCalled()
      })
    } catch (error) {
      if (tracked === undefined) this.#refused(choice.name, who, calledAt, error)
      else tracked.releaseFailed(error)
      return
    }
    if (lost) stage.journal.problem('outcomes', `with hid the loss of ${choice.name} from ${process.id}`)
    if (tracked === undefined || unconfirmed.has(tracked.lease.fence)) return
    tracked.released()
  }

  async #acquire(choice: Choice, who: Identity): Promise<TrackedLease | undefined> {
    const { locks, process, stage } = this.#client
    const { name, kind, waitMs, abortAfterMs } = choice
    const aborter = new AbortController()
    const options = { ...choice.options, signal: aborter.signal }
    const calledAt = this.#called(name, who)
    const lock = locks.lock(name)
    const call = kind === 'try' ? lock.tryAcquire(options) : lock.acquire({ ...options, waitMs })
    if (abortAfterMs !== undefined)
      void process.sleep(abortAfterMs).then(() => aborter.abort(this.#changedMind))
    let lease: Lease | null
    try {
      lease = await this.#client.timed(kind, kind === 'try' ? stage.storeTimeoutMs : waitMs, call)
    } catch (error) {
      this.#refused(name, who, calledAt, error)
      return undefined
    }
    // The process may have been stopped with the lease already on its way to the caller.
    if (lease !== null && process.steadily(() => lease.state !== 'lost'))
      return new TrackedLease(this.#client, lease, who, 'granted')
    this.#refused(name, who, calledAt, lease === null ? undefined : lease.signal.reason)
    return undefined
  }

  async #work(lease: TrackedLease, reentry: Choice | undefined): Promise<void> {
    const { process, stage } = this.#client
    for (const step of chooseSteps(stage.random, stage.manner)) {
      await process.sleep(step.afterMs)
      if (!this.#client.running || !lease.valid) return
      if (step.kind === 'extend') await lease.extend(step.ttlMs)
      else if (step.kind === 're-enter') await this.#reenter(lease, reentry)
      else if (step.kind === 'block') process.stall(step.ms)
      lease.write(step.kind === 'write' ? step.stallMs : 0)
    }
  }

  async #reenter(outer: TrackedLease, choice: Choice | undefined): Promise<void> {
    if (choice === undefined) return
    const { process, stage } = this.#client
    const kind = stage.random.pick('acquire', 'try')
    const inner = await this.#acquire({ ...choice, kind, abortAfterMs: undefined }, outer.who)
    if (inner === undefined) return
    if (inner.lease.fence !== outer.lease.fence && outer.valid)
      stage.journal.problem('fence-order', `re-entry of ${choice.name} by ${process.id} got another fence`)
    inner.write(0)
    await process.sleep(stage.random.between(0, 20))
    await inner.release()
  }

  #handOver(lease: TrackedLease): boolean {
    const text = lease.serialize()
    if (text === undefined) return false
    this.#client.stage.handOver(this.#client.process, text, lease.who)
    return true
  }

  #called(name: string, who: Identity): number {
    const t = this.#client.process.now
    this.#client.stage.journal.record({ type: 'acquire-called', t, name, ...who })
    return t
  }

  /** An acquire got no lease: because another task holds it, or with an error. */
  #refused(name: string, who: Identity, calledAt: number, error: unknown): void {
    const { process, stage } = this.#client
    const t = process.now
    const busy = error === undefined || isLockError(error, 'LOCK_TIMEOUT')
    const code = busy ? 'LOCK_TIMEOUT' : isLockError(error) ? error.code : 'aborted'
    stage.journal.record({ type: 'acquire-failed', t, name, outcome: busy ? 'fail' : 'info', code, ...who })
    // A queued waiter may know the holder only from the waiter before it, so not exactly.
    const awake = process.stoppedUntil < calledAt - 2 * LONGEST_TTL_MS
    if (busy && awake && !stage.host.wasHeldSince(name, calledAt - LONGEST_TTL_MS))
      stage.journal.problem(
        'outcomes',
        `${process.id} was told at ${t} that ${name} is held, but nobody held it`,
      )
    if (code === 'LOCK_UNAVAILABLE' && calledAt - stage.storeTimeoutMs > stage.journal.quietFrom)
      stage.journal.problem(
        'outcomes',
        `${process.id} was told at ${t} of an outage for ${name}, but there was none`,
      )
    if (!busy && error !== this.#changedMind)
      stage.expectCode(error, 'acquire', 'LOCK_UNAVAILABLE', 'LOCK_LOST', 'LOCK_CLOSED')
  }

  #who({ end, options: { owner } }: Choice): Identity {
    const { aliases, process } = this.#client
    const task = { task: this.#id, ...(owner === undefined ? {} : { owner }) }
    if (end !== 'hand over') return { process: process.id, ...task }
    const alias = `${process.id}/${this.#id}/${++this.#aliases}`
    aliases.add(alias)
    return { process: alias, ...task }
  }
}
