import { Interrupted } from './errors.ts'
import { painter, toJson } from './output.ts'
import type { Paint } from './output.ts'
import { signalCode } from './exit-codes.ts'

export const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const

/** One call of a command: where it writes, what ends it, and what it has to tidy up. */
export class Session {
  readonly paint: Paint = painter(process.stdout)
  readonly paintError: Paint = painter(process.stderr)
  /** Rejects as soon as somebody asks this program to stop. */
  readonly interrupted: Promise<never>
  readonly #stop = new AbortController()
  readonly #cleanups: (() => Promise<unknown>)[] = []
  #reject: (reason: Interrupted) => void = () => undefined
  #forward: ((signal: NodeJS.Signals) => void) | undefined

  constructor() {
    this.interrupted = new Promise((_, reject) => (this.#reject = reject))
    this.interrupted.catch(() => undefined)
    for (const signal of signals) process.on(signal, () => this.#onSignal(signal))
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
      // Nobody listens to us any more; that must not cost a running command its lock.
      if (this.#forward === undefined) this.#interrupt('SIGPIPE')
    })
    // A full disk, a terminal that is gone: what is lost there was never part of the result.
    process.stderr.on('error', () => undefined)
  }

  /** Aborts when somebody asks this program to stop, with `Interrupted` as reason. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** From now on signals go to `receiver` instead of ending this program, or, without one, end it again. */
  forward(receiver: ((signal: NodeJS.Signals) => void) | undefined): void {
    this.#forward = receiver
  }

  print(text: string): void {
    process.stdout.write(`${text}\n`)
  }

  /** For people who watch; never part of the result. */
  note(text: string): void {
    process.stderr.write(`${text}\n`)
  }

  printJson(value: unknown): void {
    this.print(toJson(value, 2))
  }

  onEnd(cleanup: () => Promise<unknown>): void {
    this.#cleanups.push(cleanup)
  }

  /** Tidies up. What fails keeps the rest from nothing, and is handed to `onFailure`. */
  async end(onFailure: (error: unknown) => Promise<void>): Promise<void> {
    for (const cleanup of this.#cleanups.toReversed()) await cleanup().catch(onFailure)
    // What is left is to be read, and may never be.
    this.forward((signal) => process.exit(signalCode(signal)))
  }

  #onSignal(signal: NodeJS.Signals): void {
    if (this.#forward !== undefined) return this.#forward(signal)
    // Asked twice: whoever asks does not want to wait for tidiness.
    if (this.signal.aborted) process.exit(signalCode(signal))
    this.#interrupt(signal)
  }

  #interrupt(by: NodeJS.Signals): void {
    const reason = new Interrupted(by)
    this.#stop.abort(reason)
    this.#reject(reason)
  }
}
