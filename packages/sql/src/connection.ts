import type { Clock } from '@locks/core/adapter'
import { onSilence } from '@locks/core/adapter'
import type { SqlErrors } from './errors.ts'

/** A short statement that takes longer has lost its server: its connection is closed. */
export const SILENCE_MS = 5_000

/** A connection that the adapter opened itself. */
export interface Connection {
  readonly ended: boolean
  /** When a statement that should be short was sent, on the host's clock. */
  busySince: number | undefined
  /** How long the server leaves it idle; `Infinity` where it does not say. */
  readonly idleLimitMs: number
  /** Calls `done` when the connection ends, except by `close` or `destroy`. */
  onEnd(done: (() => void) | undefined): void
  /** Whether the open socket keeps the process alive. */
  keepAlive(yes: boolean): void
  /** Ends the session in order. Never takes long, never rejects. */
  close(): Promise<void>
  /** Ends it at once and fails statements under way. */
  destroy(): void
}

/**
 * For a statement on a connection of the program's pool. `giveUp` must end the connection. The statement may not get
 * an answer even then, so this rejects by itself.
 */
export function unlessSilent<T>(
  sent: Promise<T>,
  clock: Clock,
  { unavailable }: SqlErrors,
  giveUp: () => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = onSilence(clock, SILENCE_MS, () => {
      giveUp()
      reject(unavailable(`the server did not answer within ${SILENCE_MS / 1_000} s; the outcome is unknown`))
    })
    sent.finally(() => timer.cancel()).then(resolve, reject)
  })
}
