const units: ReadonlyMap<string, number> = new Map([
  ['ms', 1],
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
])

/** A length of time: whole milliseconds, or a string such as `'500ms'`, `'10s'`, `'1.5m'` or `'1h'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h'}`

/** The whole milliseconds of a string such as `500ms`, `10s`, `1.5m` or `1h`; undefined for any other string. */
export function parseDuration(text: string): number | undefined {
  const [, amount, unit = ''] = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)$/.exec(text) ?? []
  const ms = Math.round(Number(amount) * (units.get(unit) ?? Number.NaN) * 1_000) / 1_000
  return Number.isSafeInteger(ms) ? ms : undefined
}

/** Converts a duration string to milliseconds. Returns any other value unchanged, for the check that follows. */
export function toMs(value: unknown): unknown {
  return typeof value === 'string' ? (parseDuration(value) ?? value) : value
}
