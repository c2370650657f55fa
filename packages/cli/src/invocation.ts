import { Interrupted } from './errors.ts'
import { painter, toJson } from './output.ts'
import type { Paint } from './output.ts'
import { signalCode } from './exit-codes.ts'

export const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const

/** One invocation of a command: where it writes, what ends it, and what it has to clean up. */
export class Invocation {
  readonly paint: Paint = painter(process.stdout)
  readonly paintError: Paint = painter(process.stderr)
  /** Rejects as soon as a signal asks this program to stop. */
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
      // The reader is gone. A running command must not lose its lock because of that.
      if (this.#forward === undefined) this.#interrupt('SIGPIPE')
    })
    // A full disk or a closed terminal: stderr is never part of the result.
    process.stderr.on('error', () => undefined)
  }

  /** Aborts with `Interrupted` when a signal asks this program to stop. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** Sends signals to `receiver` instead of ending this program; `undefined` restores that. */
  forward(receiver: ((signal: NodeJS.Signals) => void) | undefined): void {
    this.#forward = receiver
  }

  print(text: string): void {
    process.stdout.write(`${text}\n`)
  }

  /** For people; never part of the result. */
  note(text: string): void {
    process.stderr.write(`${text}\n`)
  }

  printJson(value: unknown): void {
    this.print(toJson(value, 2))
  }

  onEnd(cleanup: () => Promise<unknown>): void {
    this.#cleanups.push(cleanup)
  }

  /** Cleans up. A failing clean-up does not stop the others, and goes to `onFailure`. */
  async end(onFailure: (error: unknown) => Promise<void>): Promise<void> {
    for (const cleanup of this.#cleanups.toReversed()) await cleanup().catch(onFailure)
    // The rest of the output may never be read, so a signal now ends the process.
    this.forward((signal) => process.exit(signalCode(signal)))
  }

  #onSignal(signal: NodeJS.Signals): void {
    if (this.#forward !== undefined) return this.#forward(signal)
    // A second signal does not wait for the clean-up.
    if (this.signal.aborted) process.exit(signalCode(signal))
    this.#interrupt(signal)
  }

  #interrupt(by: NodeJS.Signals): void {
    const reason = new Interrupted(by)
    this.#stop.abort(reason)
    this.#reject(reason)
  }
}
