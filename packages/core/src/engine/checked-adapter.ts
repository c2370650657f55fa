import { adapterFailure } from './adapter-fault.ts'
import { checkAdapter } from './checked-capabilities.ts'
import {
  readAdopted,
  readAttempt,
  readBroken,
  readFindings,
  readPruned,
  readPushed,
  readReleased,
  readRenewed,
  readState,
  readStates,
} from './checked-answers.ts'
import { isLockError, LockError } from '../api/errors.ts'
import { fallbacksOf } from '../adapter/fallbacks.ts'
import type { CompleteAdapter } from '../adapter/fallbacks.ts'
import type { Adapter, AdapterFactory, AdapterHost } from '../adapter/spi.ts'

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
  const { withdraw, close } = fallbacksOf(inner)
  const waits = inner.wait !== undefined
  const diagnoses = inner.diagnose !== undefined
  const prunes = inner.prune !== undefined

  async function ask<T>(
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

  return {
    ...checked,

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

    ...(waits && {
      wait(request, maxMs, signal) {
        return ask(
          'wait',
          () => inner.wait?.(request, maxMs, signal),
          (answer) => readPushed(answer, request, capabilities, host.clock.now()),
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

    ...(capabilities.list && {
      list: (limit) =>
        ask(
          'list',
          () => inner.list?.(limit),
          (answer) => readStates(answer, limit, capabilities),
        ),
    }),

    ...(capabilities.break && {
      break: (name, holder) => ask('break', () => inner.break?.(name, holder), readBroken),
    }),

    ...(diagnoses && { diagnose: () => ask('diagnose', () => inner.diagnose?.(), readFindings) }),

    ...(prunes && { prune: (idleMs, names) => ask('prune', () => inner.prune?.(idleMs, names), readPruned) }),
  }
}

/** Explains the mistake of a program that passes `redis` instead of `redis({ url })`. */
function made(factory: AdapterFactory, host: AdapterHost): Adapter {
  const { name } = factory
  const hint = `createLocks needs what ${name || 'the adapter'}(…) returns: call it, as in createLocks(redis({ url }))`
  let inner: Adapter
  try {
    inner = factory(host)
  } catch (error) {
    // A factory that an adapter returns is anonymous; the adapter's own function has a name.
    if (name === '' || !isLockError(error, 'LOCK_INVALID_ARGUMENT')) throw error
    throw new LockError('LOCK_INVALID_ARGUMENT', `${hint}: ${error.message}`, { cause: error })
  }
  if (typeof inner === 'function') throw new LockError('LOCK_INVALID_ARGUMENT', hint)
  return inner
}

/** The result of `withdraw` and `close` has no meaning. */
function ignore(): void {}
