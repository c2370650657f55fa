import { LockError } from '@locks/core/adapter'
import type { Adapter, AdapterFactory, AdapterHost, PushedGrant } from '@locks/core/adapter'
import type { MemoryCapabilities } from '@locks/memory'
import { Link } from './link.ts'
import type { Address, Answer } from './link.ts'
import type { Call } from './wire.ts'
import { readAttempt, readGrant, readInspect, readPushed, readRelease, readRenew } from './read.ts'

export type ReferenceCapabilities = Omit<MemoryCapabilities, 'scope' | 'list' | 'break'> & {
  readonly scope: 'host'
  readonly list: false
  readonly break: false
}

const capabilities: ReferenceCapabilities = {
  scope: 'host',
  kind: 'lease',
  fencing: 'durable',
  wait: 'handoff',
  fairness: 'fifo',
  handover: true,
  lockDelay: true,
  minHold: true,
  list: false,
  break: false,
  modes: ['exclusive'],
  minTtlMs: 10,
  maxNameBytes: 1024,
}

export interface ReferenceOptions {
  /** Where the server listens: `tcp://127.0.0.1:4000`. */
  readonly url: string
}

/** Locks between the processes that reach one reference server; see `startReferenceServer`. */
export function reference({ url }: ReferenceOptions): AdapterFactory<ReferenceCapabilities> {
  const [, host, port] = /^tcp:\/\/([\w.-]+):(\d{1,5})$/.exec(url) ?? []
  if (host === undefined || port === undefined) throw invalid('url must be tcp://host:port')
  const address = { host, port: Number(port) }
  return (adapterHost) => referenceAdapter(address, adapterHost)
}

export function fromConfig(
  options: Readonly<Record<string, unknown>>,
): AdapterFactory<ReferenceCapabilities> {
  const { url, ...unknown } = options
  const [extra] = Object.keys(unknown)
  if (extra !== undefined) throw invalid(`unknown key ${JSON.stringify(extra)}; known: url`)
  if (typeof url !== 'string') throw invalid('url must be a string')
  return reference({ url })
}

function referenceAdapter(address: Address, host: AdapterHost): Adapter<ReferenceCapabilities> {
  const link = new Link(address, host)

  async function ask(call: Call): Promise<Answer> {
    const answer = await link.call(call).answer
    if (answer === 'cancelled') throw new LockError('LOCK_UNAVAILABLE', 'the request was cancelled')
    return answer
  }

  return {
    capabilities,

    attempt: async (request) => readAttempt((await ask({ method: 'attempt', args: [request] })).value),

    async wait(request, maxMs, signal) {
      if (signal.aborted) return undefined
      const { answer, cancel } = link.call({ method: 'wait', args: [request, maxMs] })
      // A server that hangs must not stretch the wait: the next attempt finds out about it.
      const timer = host.clock.timer(maxMs, cancel)
      timer.keepAlive(true)
      signal.addEventListener('abort', cancel)
      try {
        const settled = await answer
        return settled === 'cancelled' ? undefined : dated(readPushed(settled.value))
      } finally {
        timer.cancel()
        signal.removeEventListener('abort', cancel)
      }
    },

    async withdraw(request) {
      await ask({ method: 'withdraw', args: [request] })
    },

    renew: async (renewals) => readRenew((await ask({ method: 'renew', args: [renewals] })).value),

    async release(grant, keepMs) {
      const args = keepMs === undefined ? ([grant] as const) : ([grant, keepMs] as const)
      const { value, sends } = await ask({ method: 'release', args })
      const outcome = readRelease(value)
      // The first sending may have freed the name and a successor taken it. Core asks again, and then knows.
      if (outcome === 'not-held' && sends > 1)
        throw new LockError('LOCK_UNAVAILABLE', 'the reply to a release was lost')
      return outcome
    },

    async adopt(from, request) {
      const { value } = await ask({ method: 'adopt', args: [from, request] })
      return value === 'lost' ? 'lost' : readGrant(value)
    },

    inspect: async (name) => readInspect((await ask({ method: 'inspect', args: [name] })).value),

    close: () => link.close(),
  }

  /** In the store's time the grant arrives, in ours it goes on. Undatable, it is left to the next attempt. */
  function dated(pushed: PushedGrant | undefined): PushedGrant | undefined {
    const grantedAt = pushed && link.toLocal(pushed.grantedAt)
    return pushed === undefined || grantedAt === undefined ? undefined : { ...pushed, grantedAt }
  }
}

function invalid(message: string): LockError {
  return new LockError('LOCK_INVALID_ARGUMENT', `@locks/reference: ${message}`)
}
