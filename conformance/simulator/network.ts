import type { Random } from './random.ts'
import type { StoreHost } from './store-host.ts'
import type { Process } from './virtual-clock.ts'
import type { World } from './world.ts'

export interface Quality {
  /** Of each message, request or reply. */
  readonly lossRate: number
  /** Of each request: executed once more, later. */
  readonly duplicateRate: number
  readonly maxDelayMs: number
}

export const calm: Quality = { lossRate: 0, duplicateRate: 0, maxDelayMs: 8 }

/** Replays come this much later at most; from then on a lossy period has no effect any more. */
export const MAX_REPLAY_MS = 2_500

/**
 * What lies between a client process and the store. Messages travel independently of each other, as
 * over a pool of connections, so they overtake one another.
 */
export class Connection {
  quality: Quality = calm
  readonly #world: World
  readonly #process: Process
  readonly #host: StoreHost
  readonly #random: Random
  /** After which its driver gives a call up; `Infinity`: the call hangs. */
  readonly #timeoutMs: number
  readonly #underWay = new Set<(error: Error) => void>()
  #cutUntil = 0

  constructor(world: World, process: Process, host: StoreHost, timeoutMs: number) {
    this.#world = world
    this.#process = process
    this.#host = host
    this.#timeoutMs = timeoutMs
    this.#random = world.random.fork()
  }

  /** Calls the store. `onReply` runs as part of the process once the caller has the answer. */
  call<T>(execute: () => Promise<T>, { timeoutMs = this.#timeoutMs, onReply = () => {} } = {}): Promise<T> {
    const process = this.#process
    return new Promise((resolve, reject) => {
      const give = (settle: () => void): void => {
        if (!this.#underWay.delete(fail)) return
        timer?.cancel()
        settle()
        this.#world.at(process.now, onReply, process)
      }
      const fail = (error: Error): void => give(() => reject(error))
      this.#underWay.add(fail)
      const timer =
        timeoutMs === Infinity
          ? undefined
          : process.clock.timer(timeoutMs, () => fail(new Error('the driver gave up')))
      this.send(() => {
        this.#host.serve(execute).then(
          (answer) => this.#transmit(this.#world.now, process, () => give(() => resolve(answer))),
          (error: unknown) =>
            this.#transmit(this.#world.now, process, () => fail(new Error('refused', { cause: error }))),
        )
      })
      if (this.#random.chance(this.quality.duplicateRate)) this.#replay(execute)
    })
  }

  /** A message to the store that nobody waits for. */
  send(deliver: () => void): void {
    this.#transmit(this.#process.now, this.#host.process, deliver)
  }

  /** Nothing gets through for so long. */
  cut(ms: number): void {
    this.#cutUntil = Math.max(this.#cutUntil, this.#world.now + ms)
  }

  /** The connection breaks: every call under way fails, although what it sent may still arrive. */
  reset(): void {
    for (const fail of [...this.#underWay]) fail(new Error('connection reset'))
  }

  #replay<T>(execute: () => Promise<T>): void {
    const at = this.#process.now + this.#random.between(1, MAX_REPLAY_MS)
    const ignore = (): void => undefined
    this.#world.at(at, () => void this.#host.serve(execute).then(ignore, ignore), this.#host.process)
  }

  #transmit(from: number, to: Process, deliver: () => void): void {
    const { lossRate, maxDelayMs } = this.quality
    if (this.#random.chance(lossRate)) return
    // What meets a cut is lost, or kept by the sender's kernel and sent again after it.
    const cut = from < this.#cutUntil
    if (cut && this.#random.chance(0.5)) return
    const departure = cut ? this.#cutUntil : from
    this.#world.at(departure + this.#random.between(0.1, maxDelayMs), deliver, to)
  }
}
