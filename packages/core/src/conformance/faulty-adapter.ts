import { setTimeout as sleep } from 'node:timers/promises'
import { fallbacksOf } from '../adapter/fallbacks.ts'
import type { Adapter, AdapterFactory, Grant } from '../adapter/spi.ts'

export type AdapterMethod =
  | 'attempt'
  | 'wait'
  | 'withdraw'
  | 'renew'
  | 'release'
  | 'adopt'
  | 'inspect'
  | 'list'
  | 'break'
  | 'diagnose'
  | 'prune'
  | 'close'

/**
 * `fail`: not executed, rejects. `rejects`: the same with an error chosen by the rule. `lose-reply`: executed, then
 * rejects. `hang`: not executed, rejects only when healed. `swallow-reply`: executed, then hangs in the same way.
 * `delayMs` delays the reply of an executed call, `lateMs` the call itself. `spoilt` puts other values into the answer.
 */
export type Fault =
  | 'fail'
  | 'lose-reply'
  | 'hang'
  | 'swallow-reply'
  | { readonly rejects: Error }
  | { readonly delayMs: number }
  | { readonly lateMs: number }
  | { readonly spoilt: Readonly<Record<string, unknown>> }

export interface Faults {
  /** How often each method was called. */
  readonly calls: Readonly<Record<AdapterMethod, number>>
  /** The last grant of that name, with its attempt id, which a lease does not show. */
  grantOf(name: string): Grant | undefined
  /** Applies `fault` to the next `times` calls of `method`. Default: to all calls until healed. */
  inject(method: AdapterMethod, fault: Fault, times?: number): void
  /** Ends all faults; calls that hang reject now. */
  heal(): void
}

/** Adds call counts and faults to an adapter: the faults of a lossy wire, for stores without one. */
export function faulty(factory: AdapterFactory): {
  readonly factory: AdapterFactory
  readonly faults: Faults
} {
  const calls: Record<AdapterMethod, number> = {
    attempt: 0,
    wait: 0,
    withdraw: 0,
    renew: 0,
    release: 0,
    adopt: 0,
    inspect: 0,
    list: 0,
    break: 0,
    diagnose: 0,
    prune: 0,
    close: 0,
  }
  const injected = new Map<AdapterMethod, { fault: Fault; times: number }>()
  const hanging = new Set<() => void>()
  const grants = new Map<string, Grant>()
  let heals = 0

  /** Until healed, which may have happened while the call was under way. */
  function hang(method: AdapterMethod, since: number): Promise<never> {
    return new Promise((_, reject) => {
      const end = (): void => reject(new Error(`injected: ${method} hung until healed`))
      if (heals === since) hanging.add(end)
      else end()
    })
  }

  function faultOf(method: AdapterMethod): Fault | undefined {
    const found = injected.get(method)
    if (found === undefined) return undefined
    found.times -= 1
    if (found.times <= 0) injected.delete(method)
    return found.fault
  }

  async function suffer<T>(method: AdapterMethod, call: () => Promise<T>): Promise<T> {
    calls[method] += 1
    const fault = faultOf(method)
    const since = heals
    if (fault === 'hang') return hang(method, since)
    if (fault === 'fail') throw new Error(`injected: ${method} failed`)
    if (typeof fault === 'object' && 'rejects' in fault) throw fault.rejects
    if (typeof fault === 'object' && 'lateMs' in fault) await sleep(fault.lateMs)
    const result = await call()
    if (isGrant(result)) grants.set(result.name, result)
    if (fault === 'swallow-reply') return hang(method, since)
    if (fault === 'lose-reply') throw new Error(`injected: the reply to ${method} was lost`)
    if (typeof fault === 'object' && 'delayMs' in fault) await sleep(fault.delayMs)
    if (typeof fault === 'object' && 'spoilt' in fault) return Object.assign({}, result, fault.spoilt)
    return result
  }

  function wrap(inner: Adapter): Adapter {
    const { withdraw, close } = fallbacksOf(inner)
    const wait = inner.wait?.bind(inner)
    const adopt = inner.adopt?.bind(inner)
    const list = inner.list?.bind(inner)
    const breakIt = inner.break?.bind(inner)
    const diagnose = inner.diagnose?.bind(inner)
    const prune = inner.prune?.bind(inner)
    return {
      ...(inner.name !== undefined && { name: inner.name }),
      capabilities: inner.capabilities,
      attempt: (request) => suffer('attempt', () => inner.attempt(request)),
      withdraw: (request) => suffer('withdraw', () => withdraw(request)),
      renew: (renewals) => suffer('renew', () => inner.renew(renewals)),
      release: (grant, keepMs) => suffer('release', () => inner.release(grant, keepMs)),
      inspect: (name) => suffer('inspect', () => inner.inspect(name)),
      close: () => suffer('close', () => close()),
      ...(wait && { wait: (request, maxMs, signal) => suffer('wait', () => wait(request, maxMs, signal)) }),
      ...(adopt && { adopt: (from, request) => suffer('adopt', () => adopt(from, request)) }),
      ...(list && { list: (limit) => suffer('list', () => list(limit)) }),
      ...(breakIt && { break: (name, holder) => suffer('break', () => breakIt(name, holder)) }),
      ...(diagnose && { diagnose: () => suffer('diagnose', diagnose) }),
      ...(prune && { prune: (idleMs, names) => suffer('prune', () => prune(idleMs, names)) }),
    }
  }

  return {
    factory: (host) => wrap(factory(host)),
    faults: {
      calls,
      grantOf: (name) => grants.get(name),
      inject: (method, fault, times = Infinity) => void injected.set(method, { fault, times }),
      heal() {
        heals += 1
        injected.clear()
        for (const end of hanging) end()
        hanging.clear()
      },
    },
  }
}

function isGrant(result: unknown): result is Grant {
  return typeof result === 'object' && result !== null && 'attemptId' in result && 'fence' in result
}
