/** What happens to a new connection. */
export type ArrivalFault = { readonly refuse: 'reset' | 'close' } | { readonly cutAfter: number }

export interface Arrival {
  readonly fault: ArrivalFault
  /** To be called when it has happened. */
  readonly suffered: () => void
}

interface Expected {
  readonly fault: ArrivalFault
  toCome: number
  toSuffer: number
  readonly done: () => void
  readonly fail: (reason: Error) => void
}

/** Faults of future connections, in the order they were requested. */
export class Arrivals {
  readonly #expected: Expected[] = []

  expect(count: number, fault: ArrivalFault): Promise<void> {
    const all = new Promise<void>((done, fail) => {
      if (count > 0) this.#expected.push({ fault, toCome: count, toSuffer: count, done, fail })
      else done()
    })
    // A caller that awaits it sees the rejection; it need not be awaited.
    all.catch(() => undefined)
    return all
  }

  next(): Arrival | undefined {
    const expected = this.#expected.find(({ toCome }) => toCome > 0)
    if (expected === undefined) return undefined
    expected.toCome -= 1
    const suffered = (): void => {
      expected.toSuffer -= 1
      if (expected.toSuffer > 0) return
      const at = this.#expected.indexOf(expected)
      if (at >= 0) this.#expected.splice(at, 1)
      expected.done()
    }
    return { fault: expected.fault, suffered }
  }

  clear(reason: Error): void {
    for (const { fail } of this.#expected.splice(0)) fail(reason)
  }
}
