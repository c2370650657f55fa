/** One connection of an adapter's own, whatever its driver. */
export interface Line {
  readonly ended: boolean
  /** Since when a statement that should be short has been under way, on the host's clock. */
  busySince: number | undefined
  /** How long the server leaves it idle; `Infinity` where it does not say. */
  readonly idleLimitMs: number
  /** Calls `done` when the connection ends by itself: not by `close` or `destroy`. */
  onEnd(done: (() => void) | undefined): void
  /** Whether an open socket keeps the process alive. */
  keepAlive(yes: boolean): void
  /** Says goodbye. Never waits for long, never rejects. */
  close(): Promise<void>
  /** Ends it at once, and fails what is under way on it. */
  destroy(): void
}
