/** How much of a ttl may be relied on: clocks of client and store may run at slightly different rates. */
export function safeTtlMs(ttlMs: number): number {
  return ttlMs - ttlMs / 100 - 2
}
