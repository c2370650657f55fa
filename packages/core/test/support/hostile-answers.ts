/** How core treats an answer: accepts it, discards it as invalid, or never gets it. */
export type Fate = 'accept' | 'refuse' | 'silent'

export interface Answer {
  readonly fate: Fate
  /** What is accepted. */
  readonly good?: unknown
  /** Does what the adapter's method does: returns, throws, or hands out a promise or something like one. */
  readonly play: () => unknown
}

/** Whether a value is valid for a field. Written from the adapter contract, not from the code that checks it. */
export type Fields = Readonly<Record<string, (value: unknown) => boolean>>

/** Numbers in [0, 1) from a seed. */
export function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Makes answers from good ones: some unchanged, most of them spoilt. */
export class Hostile {
  readonly #random: () => number

  constructor(seed: number) {
    this.#random = seeded(seed)
  }

  pick<T>(...choices: readonly [T, ...T[]]): T {
    return choices[Math.floor(this.#random() * choices.length)] ?? choices[0]
  }

  /** A value of any kind. */
  junk(): unknown {
    return this.pick<() => unknown>(
      ...([() => undefined, () => null, () => true, () => false] as const),
      ...[NaN, 0, -0, 1, -1, 0.5, Infinity, -Infinity, 1e308, -1e308, 5e-324, 2 ** 53, 2 ** 31].map(
        (n) => () => n,
      ),
      ...[0n, -1n, 1n, 7n, 2n ** 63n, 2n ** 200n, -(2n ** 63n)].map((n) => () => n),
      ...[
        '',
        ' ',
        'x',
        'lost ',
        'granted',
        'released',
        'renewed',
        '7',
        'NaN',
        '\ud800',
        'x'.repeat(9_999),
      ].map((text) => () => text),
      () => [],
      () => [undefined, null],
      () => ({}),
      () => Array<undefined>(2 ** 32 - 1),
      () => Symbol('junk'),
      () => () => 'junk',
      () => new Date(NaN),
      () => new Proxy({}, angry),
      () => new Proxy([], angry),
      () => Object.create(null),
    )()
  }

  /** `good` unchanged, or with one field spoilt, or something else entirely. */
  record(good: object, fields: Fields, wrap: (one: object) => unknown = (one) => one): Answer {
    const how = this.#random()
    if (how < 0.15) return { fate: 'accept', good: wrap(good), play: this.#delivery(wrap(good)) }
    if (how < 0.7) return { fate: 'refuse', play: this.#delivery(wrap(this.spoil(good, fields))) }
    return this.#nonsense()
  }

  /** One of `good`, or something else entirely; `isGood` detects a hit by chance. */
  word(good: readonly [unknown, ...unknown[]], isGood: (value: unknown) => boolean): Answer {
    if (this.#random() < 0.3) {
      const chosen = this.pick(...good)
      return { fate: 'accept', good: chosen, play: this.#delivery(chosen) }
    }
    const junk = this.junk()
    if (this.#random() < 0.5 && !isGood(junk)) return { fate: 'refuse', play: this.#delivery(junk) }
    return this.#nonsense()
  }

  /** A field of `good` that is invalid, missing, or a getter that throws. */
  spoil(good: object, fields: Fields): object {
    const [key, isValid] = this.pick(...nonEmpty(Object.entries(fields)))
    const trap = { enumerable: true, get: () => raise(new Error('a getter that throws')) }
    if (this.#random() < 0.1) return Object.defineProperty({ ...good }, key, trap)
    let value = this.junk()
    while (isValid(value)) value = this.junk()
    const spoilt = { ...good, [key]: value }
    return this.#random() < 0.2 ? new Proxy(spoilt, {}) : spoilt
  }

  /** How a value is returned: as a promise, directly, or as an object with its own `then`. */
  #delivery(value: unknown): () => unknown {
    return this.pick<() => unknown>(
      async () => value,
      async () => value,
      () => value,
      () => thenable((resolve) => resolve(value)),
      () =>
        thenable((resolve, reject) => {
          resolve(value)
          reject(new Error('after the answer'))
          throw new Error('and once more')
        }),
    )
  }

  #nonsense(): Answer {
    const reason = this.pick(this.junk(), new Error('no'), new Proxy(new Error('no'), angry), angryError())
    return this.pick<Answer>(
      { fate: 'silent', play: () => new Promise(() => undefined) },
      { fate: 'silent', play: () => thenable(() => undefined) },
      { fate: 'refuse', play: () => raise(reason) },
      { fate: 'refuse', play: async () => raise(reason) },
      {
        fate: 'refuse',
        play: () => thenable((_, reject) => reject(reason)),
      },
      {
        fate: 'refuse',
        play: () =>
          thenable(
            () => undefined,
            () => raise(reason),
          ),
      },
      { fate: 'refuse', play: async () => new Proxy({}, angry) },
    )
  }
}

/** Everything that is done to it fails, except that it can be awaited. */
const angry: ProxyHandler<object> = {
  get: (_, key) => (key === 'then' ? undefined : raise(new Error('get'))),
  has: () => raise(new Error('has')),
  ownKeys: () => raise(new Error('ownKeys')),
  getPrototypeOf: () => raise(new Error('getPrototypeOf')),
  getOwnPropertyDescriptor: () => raise(new Error('getOwnPropertyDescriptor')),
}

function angryError(): Error {
  const error = new Error('no')
  for (const key of ['message', 'code', 'cause'])
    Object.defineProperty(error, key, { get: () => raise(new Error(`${key} of an error`)) })
  return error
}

type Settle = (value: unknown) => void

/** Something with a `then`, read by `read`. */
function thenable(then: (resolve: Settle, reject: Settle) => void, read: () => unknown = () => then): object {
  return Object.defineProperty({}, ['then'].join(''), { get: read })
}

function raise(reason: unknown): never {
  throw reason
}

function nonEmpty<T>(list: readonly T[]): readonly [T, ...T[]] {
  const [first, ...rest] = list
  if (first === undefined) throw new Error('nothing to choose from')
  return [first, ...rest]
}
