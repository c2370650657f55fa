/**
 * The part of a ttl to rely on, counted from before the request was sent: 1 % and 2 ms less than the ttl, since the
 * clocks of client and store may run at slightly different rates.
 */
export function safeTtlMs(ttlMs: number): number {
  return ttlMs - ttlMs / 100 - 2
}
