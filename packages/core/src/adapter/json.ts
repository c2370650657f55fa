import { types } from 'node:util'

/**
 * Makes `value` work with `JSON.stringify` although it has a fence, which becomes a decimal string: a number would lose
 * digits above 2^53. The method is not enumerable, so copies, comparisons and `util.inspect` do not see it. It is
 * added where a value goes to the program, not to each answer of the store.
 */
export function withJson<T extends object>(value: T): T {
  // A holder goes to the program many times, and the program may have frozen it meanwhile.
  if (Object.hasOwn(value, 'toJSON')) return value
  return Object.defineProperty(value, 'toJSON', { value: toJson, configurable: true })
}

function toJson(this: object): object {
  return plainJson(this)
}

/** The properties of `value`, with fences as decimal strings and errors reduced to `errorJson`. */
export function plainJson(value: object): object {
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, jsonOf(key, part)]))
}

function jsonOf(key: string, part: unknown): unknown {
  if (key === 'error' || key === 'cause') return errorJson(part)
  return typeof part === 'bigint' ? String(part) : part
}

/** Name, message and code of an error. Other properties, and values that are not errors, may contain a password. */
export function errorJson(error: unknown): { name: string; message: string; code?: string } | undefined {
  if (typeof error === 'string') return { name: 'Error', message: error }
  // A DOMException, such as the reason of an aborted signal, is not a native error on every Node.
  if (!types.isNativeError(error) && !(error instanceof Error)) return undefined
  const { name, message } = error
  const code = 'code' in error ? error.code : undefined
  return typeof code === 'string' ? { name, message, code } : { name, message }
}
