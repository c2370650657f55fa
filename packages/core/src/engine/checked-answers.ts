import type { Capabilities } from '../adapter/capabilities.ts'
import { fallbacksOf } from '../adapter/fallbacks.ts'
import type { CompleteAdapter } from '../adapter/fallbacks.ts'
import { MAX_FENCE } from '../adapter/fence.ts'
import type {
  AcquireRequest,
  Adapter,
  Busy,
  Grant,
  Holder,
  HolderMetadata,
  LockState,
  PushedGrant,
  RenewOutcome,
  Waiter,
} from '../adapter/spi.ts'
import type { Clock } from '../adapter/time.ts'
import { withJson } from '../adapter/json.ts'
import { isWhole } from '../adapter/options.ts'
import { ranges } from './settings.ts'
import { adapterFailure, adapterFault, kindOf } from './adapter-fault.ts'

// Every property is read once and copied: an answer may be a proxy, or change after it was checked.

type Asked = Pick<AcquireRequest, 'name' | 'attemptId' | 'ttlMs'>

const MAX_WAITING = 100

/** Calls `method` of the adapter. Its answer is read, and a failure becomes one that core can read. */
export async function ask<T>(
  method: string,
  call: () => Promise<unknown> | undefined,
  read: (answer: unknown) => T,
): Promise<T> {
  try {
    return read(await call())
  } catch (error) {
    throw adapterFailure(method, error)
  }
}

type LockMethods = 'attempt' | 'wait' | 'withdraw' | 'renew' | 'release' | 'adopt' | 'inspect' | 'close'

/** The methods with which a name is held and released. */
export function checkedLockMethods(
  inner: Adapter,
  capabilities: Capabilities,
  clock: Clock,
): Pick<CompleteAdapter, LockMethods> {
  const { withdraw, close } = fallbacksOf(inner)

  return {
    // These two are part of every acquire, so they avoid the closures of `ask`.
    async attempt(request) {
      try {
        return readAttempt(await inner.attempt(request), request, capabilities)
      } catch (error) {
        throw adapterFailure('attempt', error)
      }
    },

    async release(grant, keepMs) {
      try {
        const answer = keepMs === undefined ? inner.release(grant) : inner.release(grant, keepMs)
        return readReleased(await answer)
      } catch (error) {
        throw adapterFailure('release', error)
      }
    },

    withdraw(request) {
      return ask('withdraw', () => withdraw(request), ignore)
    },

    renew(renewals) {
      const { length } = renewals
      return ask(
        'renew',
        () => inner.renew(renewals),
        (answer) => readRenewed(answer, length),
      )
    },

    inspect(name) {
      const read = (answer: unknown): ReturnType<typeof readState> =>
        readState('inspect', answer, name, capabilities)
      return ask('inspect', () => inner.inspect(name), read)
    },

    close() {
      return ask('close', () => close(), ignore)
    },

    ...(inner.wait !== undefined && {
      wait(request, maxMs, signal) {
        return ask(
          'wait',
          () => inner.wait?.(request, maxMs, signal),
          (answer) => readPushed(answer, request, capabilities, clock.now()),
        )
      },
    }),

    ...(capabilities.handover && {
      adopt(from, request) {
        return ask(
          'adopt',
          () => inner.adopt?.(from, request),
          (answer) => readAdopted(answer, request, from.fence, capabilities),
        )
      },
    }),
  }
}

function readAttempt(answer: unknown, asked: Asked, capabilities: Capabilities): Grant | Busy {
  if (!isObject(answer)) throw adapterFault('attempt', kindOf(answer))
  const { busy } = answer
  if (busy === undefined) return readGrant('attempt', answer, asked, capabilities)
  if (busy !== true) throw adapterFault('attempt', `busy: ${kindOf(busy)}`)
  if (answer['fence'] !== undefined) throw adapterFault('attempt', 'busy together with a fence')
  const { holder, retryInMs } = answer
  return {
    busy,
    ...(holder !== undefined && { holder: readHolder('attempt', holder, capabilities) }),
    ...(retryInMs !== undefined && { retryInMs: readSpan('attempt', 'retryInMs', retryInMs) }),
  }
}

function readGrant(method: string, answer: unknown, asked: Asked, capabilities: Capabilities): Grant {
  if (!isObject(answer)) throw adapterFault(method, kindOf(answer))
  const { name, attemptId, fence, ttlMs } = answer
  if (name !== asked.name) throw adapterFault(method, `a grant of another name: ${kindOf(name)}`)
  if (attemptId !== asked.attemptId)
    throw adapterFault(method, `a grant of another attempt: ${kindOf(attemptId)}`)
  // The holder would rely on a longer ttl than the store was asked for.
  const maxTtlMs = capabilities.kind === 'lease' ? asked.ttlMs : ranges.ttlMs[1]
  if (typeof ttlMs !== 'number' || !(ttlMs > 0 && ttlMs <= maxTtlMs))
    throw adapterFault(
      method,
      `a grant with ttlMs ${kindOf(ttlMs)}, which must be above 0 and at most ${maxTtlMs}`,
    )
  return {
    name: asked.name,
    attemptId: asked.attemptId,
    fence: readFence(method, fence, capabilities),
    ttlMs,
  }
}

/** `now` and `grantedAt` are by the host's clock. A grant from the future would count as held for too long. */
function readPushed(
  answer: unknown,
  asked: Asked,
  capabilities: Capabilities,
  now: number,
): PushedGrant | undefined {
  if (answer === undefined) return undefined
  const grant = readGrant('wait', answer, asked, capabilities)
  const grantedAt = isObject(answer) ? answer['grantedAt'] : undefined
  if (typeof grantedAt !== 'number' || !Number.isFinite(grantedAt) || grantedAt > now)
    throw adapterFault('wait', `grantedAt ${kindOf(grantedAt)} at ${now}`)
  return { ...grant, grantedAt }
}

function readAdopted(
  answer: unknown,
  asked: Asked,
  fence: bigint,
  capabilities: Capabilities,
): Grant | 'lost' {
  if (answer === 'lost') return 'lost'
  const grant = readGrant('adopt', answer, asked, capabilities)
  if (grant.fence !== fence) throw adapterFault('adopt', `fence ${grant.fence} in place of ${fence}`)
  return grant
}

function readRenewed(answer: unknown, count: number): readonly RenewOutcome[] {
  return readList('renew', answer, { exactly: count }).map((outcome) => {
    if (outcome === 'renewed' || outcome === 'lost' || outcome === 'unknown') return outcome
    throw adapterFault('renew', `the outcome ${kindOf(outcome)}`)
  })
}

function readReleased(answer: unknown): 'released' | 'not-held' {
  if (answer === 'released' || answer === 'not-held') return answer
  throw adapterFault('release', kindOf(answer))
}

export function readState(
  method: string,
  answer: unknown,
  asked: string | undefined,
  capabilities: Capabilities,
): LockState {
  if (!isObject(answer)) throw adapterFault(method, kindOf(answer))
  const { name, held, holder, remainingMs, waiters, waiting } = answer
  if (typeof name !== 'string' || (asked !== undefined && name !== asked))
    throw adapterFault(method, `the state of another name: ${kindOf(name)}`)
  if (typeof held !== 'boolean') throw adapterFault(method, `held: ${kindOf(held)}`)
  if (waiters !== undefined && !isCount(waiters)) throw adapterFault(method, `waiters: ${kindOf(waiters)}`)
  return {
    name,
    held,
    ...(holder !== undefined && { holder: withJson(readHolder(method, holder, capabilities)) }),
    ...(remainingMs !== undefined && { remainingMs: readSpan(method, 'remainingMs', remainingMs) }),
    ...(waiters !== undefined && { waiters }),
    ...(waiting !== undefined && { waiting: readWaiting(method, waiting) }),
  }
}

function readFence(method: string, fence: unknown, { fencing }: Capabilities): bigint {
  const min = fencing === 'none' ? 0n : 1n
  if (typeof fence === 'bigint' && fence >= min && fence <= MAX_FENCE) return fence
  throw adapterFault(method, `the fence ${kindOf(fence)}, which must be a bigint from ${min} to 2^63-1`)
}

function readHolder(method: string, holder: unknown, capabilities: Capabilities): Holder {
  if (!isObject(holder)) throw adapterFault(method, `a holder that is ${kindOf(holder)}`)
  const { owner, fence, metadata, since } = holder
  if (typeof owner !== 'string') throw adapterFault(method, `a holder whose owner is ${kindOf(owner)}`)
  if (since !== undefined && (typeof since !== 'number' || !Number.isFinite(since)))
    throw adapterFault(method, `a holder since ${kindOf(since)}`)
  return {
    owner,
    ...(fence !== undefined && { fence: readFence(method, fence, capabilities) }),
    ...(metadata !== undefined && { metadata: readMetadata(method, metadata) }),
    ...(since !== undefined && { since }),
  }
}

function readWaiting(method: string, answer: unknown): readonly Waiter[] {
  return readList(method, answer, { upTo: MAX_WAITING }).map((waiter) => {
    if (!isObject(waiter)) throw adapterFault(method, `a waiter that is ${kindOf(waiter)}`)
    const { owner, metadata, since } = waiter
    if (typeof owner !== 'string') throw adapterFault(method, `a waiter whose owner is ${kindOf(owner)}`)
    if (since !== undefined && (typeof since !== 'number' || !Number.isFinite(since)))
      throw adapterFault(method, `a waiter since ${kindOf(since)}`)
    return {
      owner,
      ...(metadata !== undefined && { metadata: readMetadata(method, metadata) }),
      ...(since !== undefined && { since }),
    }
  })
}

function readMetadata(method: string, metadata: unknown): HolderMetadata {
  if (!isObject(metadata)) throw adapterFault(method, `metadata that is ${kindOf(metadata)}`)
  const { host, pid, label } = metadata
  if (typeof host !== 'string' || !isCount(pid) || (label !== undefined && typeof label !== 'string'))
    throw adapterFault(method, 'metadata without a host and a pid')
  return label === undefined ? { host, pid } : { host, pid, label }
}

/** A length of time, clamped at zero: one that ended while it was computed may be negative. */
function readSpan(method: string, key: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return Math.max(0, value)
  throw adapterFault(method, `${key} ${kindOf(value)}, which must be a finite number of milliseconds`)
}

/** Copies at most `upTo` items, by index: the iterator and methods of the list may be overridden. */
export function readList(
  method: string,
  answer: unknown,
  { exactly, upTo = Infinity }: { readonly exactly?: number; readonly upTo?: number },
): unknown[] {
  if (!Array.isArray(answer)) throw adapterFault(method, kindOf(answer))
  const { length } = answer
  if (!isCount(length) || (exactly !== undefined && length !== exactly))
    throw adapterFault(method, `a list of ${kindOf(length)}, asked for ${exactly ?? 'any'}`)
  return Array.from({ length: Math.min(length, upTo) }, (_, i): unknown => answer[i])
}

export function isCount(value: unknown): value is number {
  return isWhole(value, [0, Number.MAX_SAFE_INTEGER])
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

/** The result of `withdraw` and `close` has no meaning. */
function ignore(): void {}
