export interface Median {
  readonly median: number
  /** The true median is between these two with a probability of 95 %, however the values are spread. */
  readonly low: number
  readonly high: number
}

/** The median, and how sure it is: by the ranks between which a fair coin stays in 95 of 100 cases. */
export function medianOf(values: readonly number[]): Median {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (rank: number): number =>
    sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(rank)))] ?? NaN
  const middle = (sorted.length - 1) / 2
  const spread = 0.98 * Math.sqrt(sorted.length)
  return {
    median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2,
    low: at(middle - spread),
    high: at(middle + spread),
  }
}

/**
 * Whether it stays as it is while names come and go. The first third is the start; after it, the most of the last third
 * is at most a tenth above the most of the middle third. Linear growth from nothing makes it half as much again.
 */
export function isFlat(samples: readonly number[]): boolean {
  const third = Math.ceil(samples.length / 3)
  const [middle, last] = [samples.slice(third, 2 * third), samples.slice(2 * third)]
  return Math.max(...last) <= Math.max(...middle) * 1.1
}
