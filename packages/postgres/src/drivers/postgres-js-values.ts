/**
 * A value as text that the server reads for any type of parameter. The library's own encoding depends on the types that
 * a program declared, and encodes a value a second time when it repeats a statement.
 */
export function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`
  if (Array.isArray(value)) return `{${value.map(elementOf).join(',')}}`
  return typeof value === 'bigint' || typeof value === 'string' ? String(value) : JSON.stringify(value)
}

function elementOf(value: unknown): string {
  const text = textOf(value)
  return text === null ? 'NULL' : `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`
}

/** The types for which the library has an encoding: each of them takes the text as it is. */
const encoded = [17, 20, 21, 23, 25, 26, 114, 700, 701, 1082, 1114, 1184, 3802]

const same = (text: string): string => text

interface TextType<Value> {
  readonly to: number
  readonly from: number[]
  readonly serialize: (text: string) => string
  readonly parse: (text: string) => Value
}

/** The library itself reads a boolean, to find out whether a server is a primary. */
export const textTypes: { readonly text: TextType<string>; readonly bool: TextType<boolean> } = {
  text: { to: 25, from: encoded, serialize: same, parse: same },
  bool: { to: 16, from: [16], serialize: same, parse: (text) => text === 't' },
}
