import type { Clock } from '../adapter/clock.ts'

/** Exponential back-off with full jitter: between 1 ms and `delayMs · 2ⁿ`, at most `maxDelayMs`. */
export function backoffMs(
  n: number,
  { delayMs, maxDelayMs }: { readonly delayMs: number; readonly maxDelayMs: number },
  clock: Clock,
): number {
  const ceiling = Math.min(maxDelayMs, delayMs * 2 ** Math.min(n, 30))
  return Math.max(1, clock.random() * ceiling)
}
