import { toMs } from './duration.ts'
import type { LockError } from './lock-error.ts'
import { unknownKey } from './did-you-mean.ts'
import { errorsOf } from './errors.ts'
import { isRecord } from './is-record.ts'
import type { Declaration, Option, Settled } from './option-types.ts'
import { whatIs } from './what-is.ts'

type Layer = Readonly<Record<string, unknown>>

/** The option `url` of an adapter that reads options from it, before `settleOptions`. */
export function urlOf(declared: Declaration, options: unknown): string | undefined {
  const url = merged(declared, [options]).get('url')
  if (url === undefined || isText(url)) return url
  throw wrongOption(declared, 'url')
}

/**
 * Checks what a program or a config gave, and below it a URL, and fills in defaults. The first layer that has an option
 * wins. Throws `LOCK_INVALID_ARGUMENT` with the name of the option and without its value, which may be a password.
 */
export function settleOptions<D extends Declaration>(
  declared: D,
  options: unknown,
  fromUrl: Layer = {},
): Settled<D['options']> {
  const given = merged(declared, [options, fromUrl])
  const table = Object.entries(declared.options)
  const settled: Record<string, unknown> = {}
  for (const [key, option] of table) {
    const value = given.get(key)
    settled[key] = value === undefined ? defaultOf(option) : checked(declared, key, option, value)
  }
  const { by = '' } = declared
  const fits = ({ only }: Option): boolean =>
    only === undefined || only.some((value) => value === settled[by])
  for (const [key, option] of table) {
    const isGiven = given.get(key) !== undefined
    if (isGiven && !fits(option))
      throw invalidOption(declared, `${key} goes only with ${by} ${option.only?.filter(isText).join(' or ')}`)
    if (isGiven && option.notWith !== undefined && given.get(option.notWith) !== undefined)
      throw invalidOption(declared, `${key} does not go with ${option.notWith}; leave it out`)
    if (!isGiven && option.required === true && fits(option)) throw wrongOption(declared, key)
  }
  const places = keysOf(declared, (option) => option.place === true && fits(option))
  checkPlaces(declared, places, given)
  if (!isSettled(declared, settled)) throw new TypeError('an option was left out')
  return settled
}

/** By key, `undefined` where a key was given without a value. */
function merged(declared: Declaration, layers: readonly unknown[]): ReadonlyMap<string, unknown> {
  const given = new Map<string, unknown>()
  for (const [n, layer] of layers.entries()) {
    if (!isRecord(layer)) throw invalidOption(declared, objectForm(declared))
    // The options of a URL are below those of the program.
    const known = keysOf(declared, ({ inUrl }) => n > 0 || inUrl !== 'only')
    for (const [key, value] of Object.entries(layer)) {
      if (!known.includes(key)) throw invalidOption(declared, unknownKey(key, known))
      if (given.get(key) === undefined) given.set(key, value)
    }
  }
  return given
}

function objectForm({ example }: Declaration): string {
  return `options must be an object${example === undefined ? '' : `, such as ${example}`}`
}

function checkPlaces(
  declared: Declaration,
  places: readonly string[],
  given: ReadonlyMap<string, unknown>,
): void {
  const [one, more] = places.filter((key) => given.get(key) !== undefined)
  if (places.length === 0 || (one !== undefined && more === undefined)) return
  // A client that a program forgot to make.
  const forgotten = one === undefined ? places.find((key) => given.has(key)) : undefined
  if (forgotten !== undefined) throw wrongOption(declared, forgotten, undefined)
  const [place] = places
  if (place !== undefined && places.length === 1) throw wrongOption(declared, place)
  throw invalidOption(declared, `give exactly one of ${places.join(', ')}`)
}

function isSettled<D extends Declaration>(
  declared: D,
  values: object,
): values is Settled<D['options']> & object {
  return Object.keys(declared.options).every((key) => key in values)
}

function defaultOf(option: Option): unknown {
  return option.kind === 'value' ? undefined : option.default
}

function checked(declared: Declaration, key: string, option: Option, value: unknown): unknown {
  const read = option.kind === 'duration' ? toMs(value) : value
  if (isAllowed(option, read)) return read
  throw option.kind === 'value' ? wrongOption(declared, key, value) : wrongOption(declared, key)
}

function isAllowed(option: Option, value: unknown): boolean {
  switch (option.kind) {
    case 'duration':
      return isWhole(value, option.range) || (option.zero === true && value === 0)
    case 'integer':
      return isWhole(value, option.range)
    case 'boolean':
      return typeof value === 'boolean'
    case 'choice':
      return option.of.some((one) => one === value)
    case 'text':
      return typeof value === 'string' && new RegExp(`^(?:${option.matches ?? '.*'})$`, 's').test(value)
    case 'value':
      return option.is?.(value) ?? true
  }
}

export function isWhole(value: unknown, [min, max]: readonly [min: number, max: number]): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max
}

/** The error for a wrong value of `key`: what it must be and, for a client or a pool, what was given instead. */
export function wrongOption(declared: Declaration, key: string, ...value: readonly unknown[]): LockError {
  const option = declared.options[key]
  const instead = value.length === 0 ? '' : `, not ${whatIs(value[0])}`
  return invalidOption(
    declared,
    `${key} must ${option === undefined ? 'be left out' : formOf(option)}${instead}`,
  )
}

function formOf(option: Option): string {
  switch (option.kind) {
    case 'duration': {
      const zero = option.zero === true ? '0 or ' : ''
      return `be ${zero}${wholeForm(option.range)} (milliseconds, or a text such as '500ms', '10s' or '2m')`
    }
    case 'integer':
      return `be ${wholeForm(option.range)}`
    case 'boolean':
      return 'be true or false'
    case 'choice':
      return `be one of ${option.of.join(', ')}`
    case 'text':
      return option.must ?? 'be a string'
    case 'value':
      return option.must
  }
}

function wholeForm([min, max]: readonly [min: number, max: number]): string {
  return `a whole number from ${min} to ${max}`
}

/** The options of a URL, as values for `settleOptions`. */
export function queryOptions(
  declared: Declaration,
  query: Iterable<readonly [key: string, text: string]>,
  others: readonly string[] = [],
): Layer {
  const known = keysOf(declared, ({ inUrl }) => inUrl !== undefined)
  const found: [string, unknown][] = []
  const seen = new Set<string>()
  for (const [key, text] of query) {
    if (seen.has(key)) throw invalidOption(declared, `${key} stands twice in url; give it once`)
    seen.add(key)
    if (others.includes(key)) continue
    const option = known.includes(key) ? declared.options[key] : undefined
    if (option === undefined) throw invalidOption(declared, unknownKey(key, [...known, ...others], ' in url'))
    found.push([key, valueOf(option, text)])
  }
  return Object.fromEntries(found)
}

/** What is not of that kind stays a text, which the check then refuses. */
function valueOf(option: Option, text: string): unknown {
  const { kind } = option
  if (kind === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  if (kind === 'choice') return text === 'false' && option.of.includes(false) ? false : text
  return (kind === 'integer' || kind === 'duration') && /^\d{1,15}$/.test(text) ? Number(text) : text
}

function keysOf({ options }: Declaration, isKnown: (option: Option) => boolean): readonly string[] {
  return Object.entries(options).flatMap(([key, option]) => (isKnown(option) ? [key] : []))
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

/** The error for anything else that is wrong with the options of an adapter. */
export function invalidOption({ adapter }: Declaration, message: string): LockError {
  return errorsOf(adapter).invalid(message)
}
