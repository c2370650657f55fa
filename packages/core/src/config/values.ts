import { parseDuration } from '../adapter/duration.ts'
import { invalid } from '../adapter/lock-error.ts'

export type Plain = Readonly<Record<string, unknown>>

/** Deeper than any config. Stops at values that contain themselves. */
const MAX_DEPTH = 16

/**
 * A copy of a JSON value, with own keys only and durations in milliseconds. Errors name the key of any other value and
 * never show the value.
 */
export function plainValue(path: string, value: unknown, depth = 0): unknown {
  if (depth > MAX_DEPTH) throw invalid(`${path} is nested too deeply`)
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number' && Number.isFinite(value)) return value
  if (Array.isArray(value))
    return value.map((item: unknown, n) => plainValue(`${path}[${n}]`, item, depth + 1))
  if (isPlain(value)) {
    const entries = Object.entries(value).filter(([, given]) => given !== undefined)
    return Object.fromEntries(
      entries.map(([key, given]) => [key, keyValue(`${path}.${key}`, key, given, depth)]),
    )
  }
  const kind = typeof value === 'object' ? 'an object of a class' : `a ${typeof value}`
  throw invalid(`${path} must be a JSON value, got ${kind}; pass it to the adapter's own function instead`)
}

function keyValue(path: string, key: string, value: unknown, depth: number): unknown {
  // The keys of `stores` are names, not options.
  const isDuration = key.endsWith('Ms') && path !== `config.stores.${key}`
  if (!isDuration || typeof value !== 'string') return plainValue(path, value, depth + 1)
  const ms = parseDuration(value)
  if (ms === undefined) throw invalid(`${path} must be whole milliseconds or a string such as '10s'`)
  return ms
}

export function isPlain(value: unknown): value is Plain {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
