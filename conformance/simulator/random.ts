/** Seeded chance (mulberry32): the same seed draws the same numbers on every machine. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** Uniform in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  between(from: number, to: number): number {
    return from + this.next() * (to - from)
  }

  chance(probability: number): boolean {
    return probability > 0 && this.next() < probability
  }

  pick<T>(...choices: readonly [T, ...T[]]): T {
    return choices[Math.floor(this.next() * choices.length)] ?? choices[0]
  }

  oneOf<T>(list: readonly T[]): T | undefined {
    return list[Math.floor(this.next() * list.length)]
  }

  /** A stream of its own, so that one part drawing more does not change what another part draws. */
  fork(): Random {
    return new Random(Math.floor(this.next() * 2 ** 32))
  }
}
