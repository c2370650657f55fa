import { parseDuration } from '@locks/core/adapter'
import { UsageError } from './errors.ts'
import { quoted } from './url.ts'

/** The duration of an option, as in config: `500ms`, `30s`, `1.5m`, `2h`; and `0`. */
export function durationOf(
  option: string,
  text: string,
  [least, most]: readonly [least: string, most: string],
): number {
  const ms = text === '0' ? 0 : parseDuration(text)
  const got = quoted(text)
  if (ms === undefined)
    throw new UsageError(`${option} must be a duration such as 500ms, 30s or 5m, not ${got}`)
  if (ms >= (parseDuration(least) ?? 0) && ms <= (parseDuration(most) ?? Infinity)) return ms
  throw new UsageError(`${option} must be from ${least} to ${most}, not ${got}`)
}

/** For people: two significant digits, in a fitting unit. */
export function showDuration(durationMs: number): string {
  if (durationMs < 1) return `${durationMs.toFixed(2)} ms`
  if (durationMs < 1_000) return `${trim(durationMs)} ms`
  const s = durationMs / 1_000
  if (s < 120) return `${trim(s)} s`
  const minutes = Math.round(s / 60)
  if (minutes < 120) return `${minutes} min`
  const hours = Math.round(minutes / 60)
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} days`
}

function trim(value: number): string {
  return value < 10 ? value.toFixed(1) : value.toFixed(0)
}
