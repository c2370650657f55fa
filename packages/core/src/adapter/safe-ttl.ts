/**
 * How much of a ttl may be relied on, counted from before it was asked for: 1 % and 2 ms less, since the clocks of
 * client and store may run at slightly different rates.
 */
export function safeTtlMs(ttlMs: number): number {
  return ttlMs - ttlMs / 100 - 2
}
