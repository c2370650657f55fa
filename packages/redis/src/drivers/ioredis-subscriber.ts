import type { Redis } from 'ioredis'
import type { SubscriberConnection, SubscriberEvents } from './driver.ts'
import { isOpen, SILENCE_MS, subscriberLike, watchForSilence } from './ioredis-clients.ts'

/** One connection in subscriber mode, to the server of another client. */
export class IoredisSubscriber implements SubscriberConnection {
  readonly #client: Redis
  readonly #sharded: boolean
  readonly #watchdog: NodeJS.Timeout
  /** Ends the wait for each subscription that is not confirmed. */
  readonly #waiting = new Set<() => void>()
  /** Resolves once the present handshake has ended: one pair of listeners for all that wait for it. */
  #handshake: Promise<void> | undefined

  constructor(like: Redis, sharded: boolean, events: SubscriberEvents) {
    this.#sharded = sharded
    this.#client = subscriberLike(like)
    this.#client.on(sharded ? 'smessage' : 'message', (channel: string, text: string) =>
      events.message(channel, text),
    )
    this.#client.on('close', () => events.lost())
    this.#client.on('moved', () => {
      // Where a subscription is sent elsewhere, 5.8 to 5.11 do nothing but this.
      setImmediate(() => this.#giveUp())
      events.moved()
    })
    // 5 takes the end of a subscription for a reply, so each later one may be that to another command.
    this.#client.on('error', (error: Error) => {
      if (error.message.startsWith('Command queue state error')) this.#client.stream.destroy()
    })
    this.#watchdog = watchForSilence(() => [this.#client], SILENCE_MS)
  }

  async subscribe(channel: string): Promise<boolean> {
    let giveUp: (() => void) | undefined
    const sentAway = new Promise<boolean>((resolve) => {
      giveUp = () => resolve(false)
      this.#waiting.add(giveUp)
    })
    try {
      return await Promise.race([sentAway, this.#send(channel)])
    } catch {
      return false
    } finally {
      if (giveUp !== undefined) this.#waiting.delete(giveUp)
    }
  }

  async #send(channel: string): Promise<true> {
    // From 5.8 to 5.11 it would overtake the handshake, whose next command a subscriber may not send.
    while (this.#client.status === 'connect') await (this.#handshake ??= this.#handshakeEnd())
    // Repeated on the next connection until it is confirmed.
    if (this.#sharded) await this.#client.ssubscribe(channel)
    else await this.#client.subscribe(channel)
    return true
  }

  #handshakeEnd(): Promise<void> {
    return new Promise((resolve) => {
      const over = (): void => {
        this.#client.off('ready', over).off('close', over)
        this.#handshake = undefined
        resolve()
      }
      this.#client.once('ready', over).once('close', over)
    })
  }

  #giveUp(): void {
    for (const giveUp of this.#waiting) giveUp()
  }

  unsubscribe(channel: string): void {
    const gone = this.#sharded ? this.#client.sunsubscribe(channel) : this.#client.unsubscribe(channel)
    // A lost connection has no subscriptions either.
    gone.catch(() => undefined)
  }

  reconnect(): void {
    if (isOpen(this.#client)) this.#client.disconnect(true)
  }

  close(): void {
    clearInterval(this.#watchdog)
    this.#client.disconnect()
  }
}
