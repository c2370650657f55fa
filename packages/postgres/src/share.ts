import { Connection } from '@locks/sql'
import type { Carrier, CarrierShare } from './carrier.ts'
import type { Carriers } from './carriers.ts'
import type { Row } from './connection.ts'
import { errors } from './errors.ts'

/**
 * What one attempt has of the connections of its client: a use of a carrier, for one lock. To the attempt it is a
 * connection. Its end unlocks the name, and leaves the locks of other attempts alone.
 */
export class Share extends Connection implements CarrierShare {
  readonly #carriers: Carriers
  readonly #failing = new Set<(error: Error) => void>()
  #carrier: Carrier | undefined
  #lock = ''
  #key = ''
  silentUntil: number = 0
  protected override readonly socket = undefined

  constructor(carriers: Carriers) {
    super(errors)
    this.#carriers = carriers
  }

  get pid(): number | undefined {
    return this.#carrier?.pid
  }

  get carrier(): Carrier | undefined {
    return this.#carrier
  }

  join(carrier: Carrier, lock: string, key: string): void {
    carrier.add(lock, this)
    this.#carrier = carrier
    this.#lock = lock
    this.#key = key
    // It was destroyed before there was a connection for it.
    if (this.ended) {
      this.withdraw()
      throw errors.unavailable('the request was withdrawn; nothing is held')
    }
  }

  /** The hold ends here too at `silentUntil` unless it is renewed. A waiter's hold starts with its first renewal. */
  expires(silentUntil: number): void {
    this.silentUntil = silentUntil
    if (this.#carrier !== undefined) this.#carriers.expires(this)
  }

  /** Fails when this share ends, even if the server does not answer. */
  run(work: (carrier: Carrier) => Promise<Row>): Promise<Row> {
    const carrier = this.#carrier
    return new Promise((resolve, reject) => {
      if (carrier === undefined)
        return reject(errors.unavailable('the connection of this hold has ended, so the lock is not held'))
      this.#failing.add(reject)
      const sent = work(carrier)
      sent.finally(() => this.#failing.delete(reject)).then(resolve, reject)
    })
  }

  /** The lock was not granted. */
  withdraw(): void {
    this.#forget()?.remove(this.#lock)
  }

  /** Unlocks. Resolves with whether the session had both locks until then, according to the server. */
  async unlock(): Promise<boolean> {
    const sent = this.#forget()?.unlock(this.#lock, this.#key)
    return sent !== undefined && (await sent).every((unlocked) => unlocked === 't')
  }

  /** The connection has ended, or this hold was not renewed in time. */
  lost(): void {
    this.over()
    this.destroy()
  }

  protected override end(): Promise<unknown> {
    return this.unlock()
  }

  protected override cut(): void {
    // An unlock behind a statement that waits would wait too. If one fails, its carrier ends.
    if (this.#carrier?.alone === true) this.#forget()?.end()
    else this.unlock().catch(() => undefined)
    for (const fail of this.#failing)
      fail(errors.unavailable('the connection of this attempt has ended, so it holds nothing; try again'))
    this.#failing.clear()
  }

  #forget(): Carrier | undefined {
    const carrier = this.#carrier
    this.#carrier = undefined
    this.#carriers.expiresNoMore(this)
    return carrier === undefined || carrier.over ? undefined : carrier
  }
}
