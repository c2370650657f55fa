import { types } from 'node:util'

/**
 * Lets `JSON.stringify` write `value` although it carries a fence, which becomes a decimal string: as a number it would
 * lose digits above 2^53. The method is not enumerable, so copies, comparisons and `util.inspect` do not see it.
 */
export function withJson<T extends object>(value: T): T {
  return Object.defineProperty(value, 'toJSON', { value: toJson, configurable: true })
}

function toJson(this: object): object {
  return plainJson(this)
}

/** The parts of `value`, with fences as decimal strings and errors by what may be read of them. */
export function plainJson(value: object): object {
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, jsonOf(key, part)]))
}

function jsonOf(key: string, part: unknown): unknown {
  if (key === 'error' || key === 'cause') return errorJson(part)
  return typeof part === 'bigint' ? String(part) : part
}

/** Name, message and code. Its other properties may be anything, a password among them; so may what is not an error. */
export function errorJson(error: unknown): { name: string; message: string; code?: string } | undefined {
  if (typeof error === 'string') return { name: 'Error', message: error }
  if (!types.isNativeError(error)) return undefined
  const { name, message } = error
  const code = 'code' in error ? error.code : undefined
  return typeof code === 'string' ? { name, message, code } : { name, message }
}
