import type { AcquireRequest, AdapterHost, PushedGrant } from '@locks/core/adapter'
import type { Connection } from './connection.ts'
import { Listener } from './listener.ts'
import type { Refusal, Store } from './store.ts'
import { readMessage, Waiter } from './waiters.ts'
import type { Told } from './waiters.ts'

/** What Redisson's waiters get as a head start on their turn. */
const NUDGE_MS = 30

/** Subscriptions kept for names that nobody waits for just now. */
const IDLE_CHANNELS = 128

/** Grants remembered, so that a message that comes late is not mistaken for one of an abandoned attempt. */
const GRANTS = 10_000

/** Grants that are handed back at the same time. */
const GIVING_BACK = 1_000

/** The attempts of one client that wait in queues, and how they hear of it. */
export class Waiting {
  readonly #store: Store
  readonly #host: AdapterHost
  readonly #listener: Listener
  readonly #waiters = new Map<string, Waiter>()
  /** Attempts that were granted after they had been in a queue, each with the key of its lock. */
  readonly #granted = new Map<string, string>()
  /** The latest time of the server that this client knows, in µs. */
  #serverTime = 0
  /** Grants that are being handed back, because nobody wants them. */
  readonly #givingBack = new Set<string>()
  /** Waiters that wait for a release by Redisson, by its channel. */
  readonly #foreign = new Map<string, Set<Waiter>>()

  constructor(connection: Connection, store: Store, host: AdapterHost) {
    this.#store = store
    this.#host = host
    this.#listener = new Listener(connection, {
      message: (channel, text) => this.#heard(channel, text),
      gap: (channels) => {
        for (const waiter of this.#waiters.values())
          if (this.#channelsOf(waiter).some((channel) => channels.has(channel))) waiter.doubt()
      },
    })
  }

  /** Whether a grant for `request` would be heard; if so, it may now come at any time. */
  expect(request: AcquireRequest): boolean {
    if (!this.#listener.used || !this.#listener.hears(this.#channelOf(request.name))) return false
    this.#register(request)
    return true
  }

  /** The server does not know of the subscription, whatever this side believes. */
  unheard({ name }: AcquireRequest): void {
    this.#listener.distrust(this.#channelOf(name))
  }

  exchanged({ name, attemptId }: AcquireRequest, sentAt: number, refusal: Refusal): void {
    this.#serverTime = Math.max(this.#serverTime, refusal.serverTime)
    const waiter = this.#waiters.get(attemptId)
    if (waiter === undefined) return
    waiter.exchanged(sentAt, refusal.serverTime)
    // One behind the first is enough to stand in for it.
    if (refusal.foreign && refusal.place <= 1) this.#watchRedisson(name, waiter)
  }

  /**
   * Only who listens may queue: a grant that nobody hears is for the dead. So the first thing to wait for is that,
   * and then it is worth trying again.
   */
  async wait(request: AcquireRequest, maxMs: number, signal: AbortSignal): Promise<PushedGrant | undefined> {
    const waiter = this.#waiters.get(request.attemptId) ?? new Waiter(request, this.#host.clock)
    const channel = this.#channelOf(request.name)
    if (!this.#listener.hears(channel))
      void this.#listener.listen(channel).then((live) => {
        if (live) waiter.wake()
        this.#listener.trim(IDLE_CHANNELS, (other) => !this.#wanted(other))
      })
    const pushed = await waiter.wait(maxMs, signal)
    if (pushed !== undefined) this.granted(request)
    return pushed
  }

  granted(request: AcquireRequest): void {
    if (!this.#remove(request)) return
    this.#granted.set(request.attemptId, this.#lockOf(request))
    if (this.#granted.size > GRANTS)
      for (const first of this.#granted.keys()) return void this.#granted.delete(first)
  }

  forget(request: AcquireRequest): void {
    this.#remove(request)
    this.over(request.attemptId)
  }

  over(attemptId: string): void {
    this.#granted.delete(attemptId)
  }

  close(): void {
    this.#listener.close()
  }

  #lockOf({ name }: AcquireRequest): string {
    return this.#store.layout(name).lock
  }

  #channelOf(name: string): string {
    return this.#store.layout(name).grants + this.#host.clientId
  }

  #channelsOf({ request: { name } }: Waiter): string[] {
    return [this.#channelOf(name), this.#store.layout(name).redisson]
  }

  #register(request: AcquireRequest): void {
    if (!this.#waiters.has(request.attemptId))
      this.#waiters.set(request.attemptId, new Waiter(request, this.#host.clock))
  }

  #remove({ name, attemptId }: AcquireRequest): boolean {
    const waiter = this.#waiters.get(attemptId)
    if (waiter === undefined) return false
    this.#waiters.delete(attemptId)
    const channel = this.#store.layout(name).redisson
    const foreign = this.#foreign.get(channel)
    if (foreign?.delete(waiter) === true && foreign.size === 0) {
      this.#foreign.delete(channel)
      this.#listener.ignore(channel)
    }
    return true
  }

  #wanted(channel: string): boolean {
    if (this.#foreign.has(channel)) return true
    for (const { request } of this.#waiters.values())
      if (this.#channelOf(request.name) === channel) return true
    return false
  }

  #watchRedisson(name: string, waiter: Waiter): void {
    const channel = this.#store.layout(name).redisson
    let watchers = this.#foreign.get(channel)
    if (watchers === undefined) this.#foreign.set(channel, (watchers = new Set()))
    watchers.add(waiter)
    if (this.#listener.hears(channel)) return
    // The release may have come before the subscription: look again.
    void this.#listener.listen(channel).then((live) => {
      if (live) waiter.wake()
    })
  }

  #heard(channel: string, text: string): void {
    const watchers = this.#foreign.get(channel)
    if (watchers !== undefined) for (const waiter of watchers) waiter.hint(0)
    else this.#read(text)
  }

  /** Any client that may publish to the channel can have sent it, in any form. */
  #read(text: string): void {
    const message = readMessage(text)
    if (message === undefined) return
    const waiter = this.#waiters.get(message.attemptId)
    if (!('fence' in message)) waiter?.hint(message.inMs ?? NUDGE_MS)
    else if (this.#store.proofs.isValid(message.lock, message.attemptId, message.text, message.proof))
      this.#told(message, waiter)
    else waiter?.hint(0)
  }

  /** A grant that the store has made. */
  #told(told: Told, waiter: Waiter | undefined): void {
    const { lock, attemptId, madeAt, ttlMs } = told
    this.#serverTime = Math.max(this.#serverTime, madeAt)
    if (waiter !== undefined && this.#lockOf(waiter.request) === lock)
      waiter.told({ ...told, ttlMs: Math.min(told.ttlMs, this.#store.claimOf(waiter.request)) })
    // Given up, and enqueued or granted all the same by a request that came late; or not the lock that was asked for.
    // One that is older than its claim has ended by itself, or is held: said again, it must not end that hold.
    else if (this.#granted.get(attemptId) !== lock && madeAt + ttlMs * 1_000 >= this.#serverTime)
      this.#giveBack(lock, attemptId)
  }

  /** If this fails, the claim ends by itself. An old grant may be said again and again: one at a time is enough. */
  #giveBack(lock: string, attemptId: string): void {
    const grant = `${attemptId} ${lock}`
    if (this.#givingBack.has(grant) || this.#givingBack.size >= GIVING_BACK) return
    this.#givingBack.add(grant)
    const over = (): void => void this.#givingBack.delete(grant)
    this.#store.giveBack(lock, attemptId).then(over, over)
  }
}
