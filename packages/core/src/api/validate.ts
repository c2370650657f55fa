import { unknownKey } from '../adapter/did-you-mean.ts'
import { isRecord } from '../adapter/is-record.ts'
import { isWhole } from '../adapter/options.ts'
import type { Capabilities } from '../adapter/capabilities.ts'
import { toMs } from '../adapter/duration.ts'
import { invalid, unsupported } from '../adapter/lock-error.ts'
import { MAX_LABEL_BYTES, MAX_NAME_BYTES, MAX_OWNER_BYTES } from './options.ts'
import { ranges } from '../engine/settings.ts'
import type { RangeKey, Settings } from '../engine/settings.ts'

// With the u flag this matches only lone surrogates; a pair is one code point.
const loneSurrogate = /\p{Surrogate}/u

export function checkName(name: unknown, capabilities: Capabilities): asserts name is string {
  checkText('lock name', name, Math.min(MAX_NAME_BYTES, capabilities.maxNameBytes))
}

export function checkText(what: string, value: unknown, maxBytes: number): asserts value is string {
  if (typeof value !== 'string') throw invalid(`${what} must be a string, got ${kindOf(value)}`)
  if (value.length === 0) throw invalid(`${what} must not be empty`)
  // A UTF-16 unit takes at most three bytes in UTF-8, so short texts need no count.
  if (value.length * 3 > maxBytes && Buffer.byteLength(value) > maxBytes)
    throw invalid(`${what} must be at most ${maxBytes} bytes of UTF-8`)
  if (loneSurrogate.test(value)) throw invalid(`${what} must be well-formed Unicode (lone surrogate)`)
}

/** The integer `value`; in milliseconds if the key ends in `Ms`, where a duration string is accepted too. */
export function checkInteger(key: RangeKey, value: unknown): number {
  return checkWhole(key, value, ranges[key])
}

/** The same with another range. */
export function checkWhole(key: string, value: unknown, range: readonly [min: number, max: number]): number {
  const isDuration = key.endsWith('Ms')
  const number = isDuration ? toMs(value) : value
  if (isWhole(number, range)) return number
  const [min, max] = range
  const unit = isDuration ? " (milliseconds, or a string such as '500ms', '10s' or '2m')" : ''
  throw invalid(`${key} must be a whole number from ${min} to ${max}${unit}, got ${kindOf(value)}`)
}

/** Throws, or returns the value to use. */
type Check = (value: unknown, capabilities: Capabilities) => unknown

const integer =
  (key: RangeKey): Check =>
  (value) =>
    checkInteger(key, value)

function text(what: string, maxBytes: number): Check {
  return (value) => {
    checkText(what, value, maxBytes)
    return value
  }
}

const retryKeys = new Map<string, Check>([
  ['attempts', integer('attempts')],
  ['delayMs', integer('delayMs')],
  ['maxDelayMs', integer('maxDelayMs')],
])

const lockKeys = new Map<string, Check>([
  ['ttlMs', checkTtl],
  ['waitMs', integer('waitMs')],
  ['maxHoldMs', integer('maxHoldMs')],
  ['lockDelayMs', checkLockDelay],
  ['minHoldMs', checkMinHold],
  ['label', text('label', MAX_LABEL_BYTES)],
  ['renew', checkRenew],
  ['mode', checkMode],
  ['retry', (value, capabilities) => checkKeys('retry', value, retryKeys, capabilities)],
])

/** The options of `createLocks` that a config may have. */
export const defaultKeys: readonly string[] = ['storeTimeoutMs', ...lockKeys.keys()]

const acquireKeys = new Map<string, Check>([
  ...lockKeys,
  ['owner', text('owner', MAX_OWNER_BYTES)],
  ['signal', checkSignal],
])

const tryKeys = new Map([...acquireKeys].filter(([key]) => key !== 'waitMs'))
const resumeKeys = new Map([...lockKeys].filter(([key]) => ['renew', 'maxHoldMs', 'label'].includes(key)))

export type Purpose = 'lock' | 'acquire' | 'try' | 'resume'

const keysOf: Record<Purpose, ReadonlyMap<string, Check>> = {
  lock: lockKeys,
  acquire: acquireKeys,
  try: tryKeys,
  resume: resumeKeys,
}

/** Checks the options given for `purpose` and applies them over `base`. `others` were taken out before. */
export function settle(
  purpose: Purpose,
  options: unknown,
  base: Settings,
  capabilities: Capabilities,
  others: readonly string[] = [],
): Settings {
  if (options === undefined) return base
  const { retry, ...rest } = checkKeys('options', options, keysOf[purpose], capabilities, others)
  const settled: Settings = Object.assign({ ...base }, rest, retry)
  // A resumed lease uses the `minHoldMs` of its text, not the client's.
  if (purpose !== 'resume' && settled.minHoldMs > settled.maxHoldMs)
    throw invalid(
      `minHoldMs must not be above maxHoldMs, got ${settled.minHoldMs} and ${settled.maxHoldMs}: ` +
        'a hold ends when it is no longer renewed',
    )
  return settled
}

/** Refuses an options object with a key that is not among `known`: it would be ignored. */
export function checkKnown(options: unknown, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw invalid(`options must be an object, got ${kindOf(options)}`)
  for (const key of Object.keys(options))
    if (!known.includes(key)) throw invalid(unknownKey(key, known, ' in options'))
}

function checkKeys(
  what: string,
  value: unknown,
  keys: ReadonlyMap<string, Check>,
  capabilities: Capabilities,
  others: readonly string[] = [],
): Record<string, unknown> {
  if (!isRecord(value)) throw invalid(`${what} must be an object, got ${kindOf(value)}`)
  const checked: [string, unknown][] = []
  for (const [key, given] of Object.entries(value)) {
    const check = keys.get(key)
    if (check === undefined) throw invalid(unknownKey(key, [...keys.keys(), ...others], ` in ${what}`))
    // An explicit undefined means "not given", also for callers without exactOptionalPropertyTypes.
    if (given !== undefined) checked.push([key, check(given, capabilities)])
  }
  return Object.fromEntries(checked)
}

export function checkTtl(value: unknown, capabilities: Capabilities): number {
  const ttlMs = checkInteger('ttlMs', value)
  if (ttlMs >= capabilities.minTtlMs) return ttlMs
  throw invalid(`ttlMs must be at least ${capabilities.minTtlMs} with this adapter, got ${ttlMs}`)
}

function checkLockDelay(value: unknown, capabilities: Capabilities): number {
  const lockDelayMs = checkInteger('lockDelayMs', value)
  if (lockDelayMs > 0 && !capabilities.lockDelay) throw unsupported('lockDelayMs')
  return lockDelayMs
}

const NO_MIN_HOLD = ': its store cannot keep a name taken after the release; use another adapter or strategy'

function checkMinHold(value: unknown, capabilities: Capabilities): number {
  const minHoldMs = checkInteger('minHoldMs', value)
  if (minHoldMs > 0 && !capabilities.minHold) throw unsupported('minHoldMs', NO_MIN_HOLD)
  return minHoldMs
}

function checkRenew(value: unknown, capabilities: Capabilities): boolean {
  if (typeof value !== 'boolean') throw invalid(`renew must be true or false, got ${kindOf(value)}`)
  if (!value && capabilities.kind !== 'lease') throw unsupported('renew: false (a fixed lease)')
  return value
}

function checkMode(value: unknown, capabilities: Capabilities): unknown {
  if (capabilities.modes.some((mode) => mode === value)) return value
  if (value === 'shared') throw unsupported('mode: shared')
  throw invalid(`mode must be one of ${capabilities.modes.join(', ')}, got ${kindOf(value)}`)
}

function checkSignal(value: unknown): AbortSignal {
  if (value instanceof AbortSignal) return value
  throw invalid(`signal must be an AbortSignal, got ${kindOf(value)}`)
}

/** Describes a value without showing a text, which may be a secret. */
function kindOf(value: unknown): string {
  if (typeof value === 'number') return String(value)
  if (value === null) return 'null'
  return Array.isArray(value) ? 'an array' : typeof value
}
