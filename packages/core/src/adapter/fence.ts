/** Fences are positive and fit into a signed 64-bit integer, which every store and guard can keep. */
export const MAX_FENCE: bigint = 2n ** 63n - 1n
