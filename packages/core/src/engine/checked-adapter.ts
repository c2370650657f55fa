import type { Capabilities } from '../adapter/capabilities.ts'
import type { CompleteAdapter } from '../adapter/fallbacks.ts'
import type { Adapter, AdapterFactory, AdapterHost } from '../adapter/spi.ts'
import { invalid, isLockError, LockError } from '../adapter/lock-error.ts'
import { isWhole } from '../adapter/options.ts'
import { kindOf } from './adapter-fault.ts'
import { checkedLockMethods, isObject } from './checked-answers.ts'
import { checkedOperatorMethods } from './checked-operators.ts'

/**
 * The adapter as the rest of core sees it: every answer is checked and copied, every failure is one that core can read,
 * methods that `capabilities` does not claim are absent, and methods that core needs are present. An answer that the
 * contract does not allow rejects: its outcome is unknown, so the call is tried again and the request finally
 * withdrawn.
 */
export function checkedAdapter(factory: AdapterFactory, host: AdapterHost): CompleteAdapter {
  const inner = made(factory, host)
  const checked = checkAdapter(inner)
  const { capabilities } = checked
  return {
    ...checked,
    ...checkedLockMethods(inner, capabilities, host.clock),
    ...checkedOperatorMethods(inner, capabilities),
  }
}

/** Explains the mistake of a program that passes `redis` instead of `redis({ url })`. */
function made(factory: AdapterFactory, host: AdapterHost): Adapter {
  const { name } = factory
  const call = `${name || 'the adapter'}(…)`
  const advice = `createLocks needs what ${call} returns: call it, as in createLocks(redis({ url }))`
  let inner: Adapter
  try {
    inner = factory(host)
  } catch (error) {
    // A factory that an adapter returns is anonymous; the adapter's own function has a name.
    if (name === '' || !isLockError(error, 'LOCK_INVALID_ARGUMENT')) throw error
    throw new LockError('LOCK_INVALID_ARGUMENT', `${advice}: ${error.message}`, { cause: error })
  }
  if (typeof inner === 'function') throw new LockError('LOCK_INVALID_ARGUMENT', advice)
  return inner
}

const words: Readonly<Record<string, readonly string[]>> = {
  scope: ['process', 'host', 'cluster'],
  kind: ['lease', 'session', 'connection'],
  fencing: ['durable', 'clock-assisted', 'none'],
  wait: ['handoff', 'notify', 'poll'],
  fairness: ['fifo', 'none'],
}
const flags = ['handover', 'lockDelay', 'minHold', 'list', 'break']
const methods = ['attempt', 'renew', 'release', 'inspect']
const optionalMethods = ['wait', 'withdraw', 'diagnose', 'prune', 'close']
const claimed = { adopt: 'handover', list: 'list', break: 'break' } as const

/** Checks what a factory made, once, and returns frozen copies of its name and capabilities. */
function checkAdapter(adapter: Adapter): Pick<Adapter, 'name' | 'capabilities'> {
  try {
    return check(adapter)
  } catch (error) {
    throw isLockError(error) ? error : faulty('its capabilities or methods cannot be read')
  }
}

function check(adapter: Adapter): Pick<Adapter, 'name' | 'capabilities'> {
  if (!isObject(adapter) || !isObject(adapter.capabilities))
    throw faulty('its factory must return an object with capabilities and methods')
  const capabilities: Capabilities = Object.freeze({ ...adapter.capabilities })
  const values = new Map<string, unknown>(Object.entries(capabilities))
  for (const [key, known] of Object.entries(words)) {
    const value = values.get(key)
    if (typeof value !== 'string' || !known.includes(value))
      throw faulty(`capabilities.${key} must be one of ${known.join(', ')}, got ${kindOf(value)}`)
  }
  for (const key of flags)
    if (typeof values.get(key) !== 'boolean')
      throw faulty(`capabilities.${key} must be true or false, got ${kindOf(values.get(key))}`)
  const { modes } = capabilities
  if (!Array.isArray(modes) || modes.length !== 1 || modes[0] !== 'exclusive')
    throw faulty("capabilities.modes must be ['exclusive']")
  for (const key of ['minTtlMs', 'maxNameBytes'] as const) checkLimit(key, capabilities[key])
  for (const method of methods) checkMethod(adapter, method)
  for (const method of optionalMethods)
    if (Reflect.get(adapter, method) !== undefined) checkMethod(adapter, method)
  for (const [method, capability] of Object.entries(claimed))
    if (capabilities[capability]) checkMethod(adapter, method)
  // A release does not remove a waiter from a queue.
  if (capabilities.wait === 'handoff' || capabilities.fairness === 'fifo') checkMethod(adapter, 'withdraw')
  const { name } = adapter
  if (name === undefined) return { capabilities }
  if (typeof name !== 'string') throw faulty(`name must be a string, got ${kindOf(name)}`)
  return { name, capabilities }
}

function checkLimit(key: string, value: unknown): void {
  if (!isWhole(value, [1, Number.MAX_SAFE_INTEGER]))
    throw faulty(`capabilities.${key} must be a whole number above 0, got ${kindOf(value)}`)
}

function checkMethod(adapter: Adapter, method: string): void {
  const found: unknown = Reflect.get(adapter, method)
  if (typeof found !== 'function') throw faulty(`${method} must be a function, got ${kindOf(found)}`)
}

function faulty(what: string): LockError {
  return invalid(`the adapter is faulty: ${what}`)
}
