const units: ReadonlyMap<string, number> = new Map([
  ['ms', 1],
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
])

/** A length of time: whole milliseconds, or a text such as `'500ms'`, `'10s'`, `'1.5m'` or `'1h'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h'}`

/** Whole milliseconds of a text such as `500ms`, `10s`, `1.5m` or `1h`; undefined when it is none. */
export function parseDuration(text: string): number | undefined {
  const [, amount, unit = ''] = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)$/.exec(text) ?? []
  const ms = Math.round(Number(amount) * (units.get(unit) ?? Number.NaN) * 1_000) / 1_000
  return Number.isSafeInteger(ms) ? ms : undefined
}

/** A text that is a duration, in milliseconds; any other value as it is, for the check that follows. */
export function toMs(value: unknown): unknown {
  return typeof value === 'string' ? (parseDuration(value) ?? value) : value
}
