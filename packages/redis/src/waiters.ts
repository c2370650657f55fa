import { Wake } from '@locks/core/adapter'
import type { AcquireRequest, AdapterHost, Clock, PushedGrant } from '@locks/core/adapter'
import type { Connection } from './connection.ts'
import type { Refusal } from './record.ts'
import type { Store } from './store.ts'
import { Subscriber } from './subscriber.ts'
import type { Listener } from './subscriber.ts'

/** A grant as the release that made it publishes it: `attempt fence µs claim lock proof`. Anyone may have sent it. */
interface GrantMessage {
  readonly attemptId: string
  readonly fence: bigint
  /** By the server's clock, in µs. */
  readonly madeAt: number
  readonly ttlMs: number
  /** Key of the lock. */
  readonly lock: string
  /** The message without its proof. */
  readonly text: string
  /** Empty if there is none. */
  readonly proof: string
}

/** Worth a look after a while: `attempt ms` when another client's claim ends, `attempt` on Redisson's turn. */
interface Hint {
  readonly attemptId: string
  readonly inMs: number | undefined
}

const attempt = String.raw`([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}:\d{1,19})`
const grantForm = new RegExp(
  String.raw`^(${attempt} (\d{1,16}) (\d{16}) (\d{1,9}) (.+?))(?: ([\da-f]{40}))?$`,
  's',
)
const hintForm = new RegExp(String.raw`^${attempt}(?: (\d{1,9}))?$`)

/** Undefined for a text of neither form. */
function readMessage(message: string): GrantMessage | Hint | undefined {
  const hint = hintForm.exec(message)
  if (hint !== null) {
    const [, attemptId = '', inMs] = hint
    return { attemptId, inMs: inMs === undefined ? undefined : Number(inMs) }
  }
  const grant = grantForm.exec(message)
  if (grant === null) return undefined
  const [, text = '', attemptId = '', fence = '', madeAt, ttlMs, lock = '', proof = ''] = grant
  return { attemptId, fence: BigInt(fence), madeAt: Number(madeAt), ttlMs: Number(ttlMs), lock, text, proof }
}

/** Anyone may send hints, so they make a waiter look no more often than this. */
const HINT_EVERY_MS = 50

/** One attempt in the queue of a lock. */
class Waiter {
  readonly request: AcquireRequest
  readonly #clock: Clock
  readonly #wake: Wake
  /** The last exchange with the server: when it was sent, by this clock, and when that was by the server's. */
  #exchange: { readonly sentAt: number; readonly serverTime: number } | undefined
  #message: GrantMessage | undefined
  /** The earliest time for the next look because of a hint. */
  #hintedAfter = 0

  constructor(request: AcquireRequest, clock: Clock) {
    this.request = request
    this.#clock = clock
    this.#wake = new Wake(clock)
  }

  exchanged(sentAt: number, serverTime: number): void {
    this.#exchange = { sentAt, serverTime }
  }

  granted(message: GrantMessage): void {
    this.#message = message
    this.wake()
  }

  /** Worth trying again. */
  wake(): void {
    this.#wake.wake()
  }

  /** Perhaps worth trying again in a while. */
  hint(ms: number): void {
    this.#wake.wakeBy(Math.max(this.#clock.now() + ms, this.#hintedAfter))
  }

  /** The server may be another one now, with another clock. */
  doubt(): void {
    this.#exchange = undefined
    this.#message = undefined
    this.wake()
  }

  /** Listens on Redisson's channel, where it publishes releases. */
  readonly redissonReleased = (text: string | undefined): void =>
    text === undefined ? this.doubt() : this.hint(0)

  /** Until it is granted, woken or aborted, or `maxMs` are over. */
  async wait(maxMs: number, signal: AbortSignal): Promise<PushedGrant | undefined> {
    const how = await this.#wake.sleep(maxMs, { signal })
    if (how === 'due') this.#hintedAfter = this.#clock.now() + HINT_EVERY_MS
    return this.#grant()
  }

  /**
   * A lower bound of when the grant was made: when the exchange was sent, plus the time that has passed on the server
   * since. A grant that is read after a long pause therefore appears expired and only triggers a look.
   */
  #grant(): PushedGrant | undefined {
    const [message, exchange] = [this.#message, this.#exchange]
    this.#message = undefined
    if (message === undefined || exchange === undefined) return undefined
    const mapped = exchange.sentAt + (message.madeAt - exchange.serverTime) / 1_000
    const { name } = this.request
    const { attemptId, fence, ttlMs } = message
    const now = this.#clock.now()
    if (mapped + ttlMs <= now) return undefined
    return { name, attemptId, fence, ttlMs, grantedAt: Math.min(mapped, now) }
  }
}

/** Head start of Redisson's waiters on their turn. */
const NUDGE_MS = 30

/** Subscriptions kept for names without a waiter. */
const IDLE_CHANNELS = 128

/** Grants remembered, so that a late message is not mistaken for the grant of a withdrawn attempt. */
const GRANTS = 10_000

/** Unwanted grants that are released at the same time. */
const MAX_RELEASING = 1_000

/** The attempts of one client that wait in queues, and how grants reach them. */
export class Waiters {
  readonly #store: Store
  readonly #host: AdapterHost
  readonly #subscriber: Subscriber
  readonly #waiters = new Map<string, Waiter>()
  /** Attempts that were granted after they had been in a queue, each with the key of its lock. */
  readonly #granted = new Map<string, string>()
  /** The latest known time of the server, in µs. */
  #serverTime = 0
  /** Unwanted grants that are being released. */
  readonly #releasing = new Set<string>()

  constructor(connection: Connection, store: Store, host: AdapterHost) {
    this.#store = store
    this.#host = host
    this.#subscriber = new Subscriber(connection)
  }

  /** Whether a grant for `request` would arrive; if so, it may now come at any time. */
  expect(request: AcquireRequest): boolean {
    if (!this.#subscriber.isLive(this.#channelOf(request.name))) return false
    if (!this.#waiters.has(request.attemptId))
      this.#waiters.set(request.attemptId, new Waiter(request, this.#host.clock))
    return true
  }

  /** The server does not have the subscription that this side assumes. */
  unsubscribed({ name }: AcquireRequest): void {
    this.#subscriber.distrust(this.#channelOf(name))
  }

  exchanged({ name, attemptId }: AcquireRequest, sentAt: number, refusal: Refusal): void {
    this.#serverTime = Math.max(this.#serverTime, refusal.serverTime)
    const waiter = this.#waiters.get(attemptId)
    if (waiter === undefined) return
    waiter.exchanged(sentAt, refusal.serverTime)
    // The second in the queue stands in for the first.
    if (refusal.foreign && refusal.position <= 1) this.#watchRedisson(name, waiter)
  }

  /** Enqueue only after subscribing, or the grant message is lost: the first wait therefore ends once subscribed. */
  async wait(request: AcquireRequest, maxMs: number, signal: AbortSignal): Promise<PushedGrant | undefined> {
    const waiter = this.#waiters.get(request.attemptId) ?? new Waiter(request, this.#host.clock)
    const channel = this.#channelOf(request.name)
    if (!this.#subscriber.isLive(channel))
      void this.#subscriber.subscribe(channel, this.#received).then((live) => {
        if (live) waiter.wake()
        this.#subscriber.trim(IDLE_CHANNELS, (other) => !this.#wanted(other))
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

  withdrawn(request: AcquireRequest): void {
    this.#remove(request)
    this.released(request.attemptId)
  }

  released(attemptId: string): void {
    this.#granted.delete(attemptId)
  }

  close(): void {
    this.#subscriber.close()
  }

  #lockOf({ name }: AcquireRequest): string {
    return this.#store.layout(name).lock
  }

  #channelOf(name: string): string {
    return this.#store.layout(name).grants + this.#host.clientId
  }

  #remove({ name, attemptId }: AcquireRequest): boolean {
    const waiter = this.#waiters.get(attemptId)
    if (waiter === undefined) return false
    this.#waiters.delete(attemptId)
    this.#subscriber.unsubscribe(this.#store.layout(name).redisson, waiter.redissonReleased)
    return true
  }

  #wanted(channel: string): boolean {
    for (const { request } of this.#waiters.values())
      if ([this.#channelOf(request.name), this.#store.layout(request.name).redisson].includes(channel))
        return true
    return false
  }

  #watchRedisson(name: string, waiter: Waiter): void {
    const channel = this.#store.layout(name).redisson
    const wasLive = this.#subscriber.isLive(channel)
    // The release may have come before the subscription: look again.
    void this.#subscriber.subscribe(channel, waiter.redissonReleased).then((live) => {
      if (live && !wasLive) waiter.wake()
    })
  }

  readonly #received: Listener = (text, channel) => {
    if (text !== undefined) return this.#read(text)
    for (const waiter of this.#waiters.values())
      if (this.#channelOf(waiter.request.name) === channel) waiter.doubt()
  }

  /** Any client that may publish to the channel can have sent it. */
  #read(text: string): void {
    const message = readMessage(text)
    if (message === undefined) return
    const waiter = this.#waiters.get(message.attemptId)
    if (!('fence' in message)) waiter?.hint(message.inMs ?? NUDGE_MS)
    else if (this.#store.proofs.isValid(message.lock, message.attemptId, message.text, message.proof))
      this.#pushed(message, waiter)
    else waiter?.hint(0)
  }

  /** A grant that the store has made. */
  #pushed(message: GrantMessage, waiter: Waiter | undefined): void {
    const { lock, attemptId, madeAt, ttlMs } = message
    this.#serverTime = Math.max(this.#serverTime, madeAt)
    if (waiter !== undefined && this.#lockOf(waiter.request) === lock)
      waiter.granted({ ...message, ttlMs: Math.min(ttlMs, this.#store.claimOf(waiter.request)) })
    // The attempt was withdrawn, but a late request enqueued it again or got it granted; or the grant is for another
    // lock. One older than its claim has ended by itself, or is held: a repeated message must not end that hold.
    else if (this.#granted.get(attemptId) !== lock && madeAt + ttlMs * 1_000 >= this.#serverTime)
      this.#release(lock, attemptId)
  }

  /** If this fails, the claim ends by itself. A message may be repeated: one release at a time is enough. */
  #release(lock: string, attemptId: string): void {
    const grant = `${attemptId} ${lock}`
    if (this.#releasing.has(grant) || this.#releasing.size >= MAX_RELEASING) return
    this.#releasing.add(grant)
    const over = (): void => void this.#releasing.delete(grant)
    this.#store.releaseUnwanted(lock, attemptId).then(over, over)
  }
}
