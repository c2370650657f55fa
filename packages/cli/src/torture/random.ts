/** Random numbers that depend only on a seed. */
export interface Random {
  /** A fraction from 0 up to, not including, 1. */
  fraction(): number
  /** A whole number from `least` to `most`, both included. */
  between(least: number, most: number): number
  pick<T>(list: readonly [T, ...T[]]): T
  chance(share: number): boolean
}

/** Mulberry32. Each `stream` of one seed has its own numbers. */
export function seeded(seed: number, stream = 0): Random {
  let state = (seed ^ Math.imul(stream + 1, 0x9e3779b1)) >>> 0
  const fraction = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return {
    fraction,
    between: (least, most) => least + Math.floor(fraction() * (most - least + 1)),
    pick: (list) => list[Math.floor(fraction() * list.length)] ?? list[0],
    chance: (share) => fraction() < share,
  }
}
