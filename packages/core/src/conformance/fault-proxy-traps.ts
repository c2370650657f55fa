import type { Shift, SwallowOptions } from './fault-proxy-contract.ts'
import type { Fail, Link, Spring, Trap } from './fault-proxy-link.ts'

export const NOTHING: Buffer = Buffer.alloc(0)
const REQUEST_LIMIT = 64 * 1024

/** Faults that wait for a request that matches. They take effect with the reply to it. */
export class Traps {
  readonly #armed: Trap[] = []

  arm<T>(
    options: SwallowOptions,
    onReply: (done: (value: T) => void, fail: Fail) => Spring,
    shift?: Shift,
  ): Promise<T> {
    const sprung = new Promise<T>((done, fail) => {
      this.#armed.push({
        matching: options.matching ?? (() => true),
        spring: onReply(done, fail),
        fail,
        shift,
      })
    })
    // A caller that awaits it sees the rejection; otherwise it must not end the process at close.
    sprung.catch(() => undefined)
    return sprung
  }

  /** The client sent more of a request, which may match. */
  sent(link: Link, bytes: Buffer): void {
    if (this.#armed.length === 0 && !link.trap) return
    link.request = Buffer.concat([link.request, bytes]).subarray(-REQUEST_LIMIT)
    if (link.trap) return
    const index = this.#armed.findIndex((trap) => trap.matching(link.request))
    if (index >= 0) link.trap = this.#armed.splice(index, 1)[0]
  }

  /** The reply has come. */
  spring(link: Link): void {
    const { trap, request } = link
    link.trap = undefined
    link.request = NOTHING
    trap?.spring(link, request)
  }

  /** The reply will not come on this connection: the trap waits for the next request that matches. */
  rearm(link: Link): void {
    if (link.trap) this.#armed.unshift(link.trap)
    link.trap = undefined
  }

  fail(reason: Error): void {
    for (const trap of this.#armed.splice(0)) trap.fail(reason)
  }
}
