import type { AdapterFactory } from '@locks/core'
import type { Adapter, PushedGrant } from '@locks/core/adapter'
import type { Connection } from './network.ts'
import type { StoreHost } from './store-host.ts'

/** How far apart the rates of two clocks may be, as the library assumes. */
const DRIFT = 0.01

export interface RemoteOptions {
  /** A lost answer to a wait hangs forever, instead of ending it by the client's own timer. */
  readonly waitsHang: boolean
  /** Runs as part of the process after an answer to a renewal. */
  readonly onRenewed: () => void
  /** A mistake: a pushed grant counts from when it was read. */
  readonly datesByReceipt: boolean
}

/** An adapter in a client process: each method is a request to the store across the network. */
export function remote(connection: Connection, host: StoreHost, options: RemoteOptions): AdapterFactory {
  return ({ clock }) => {
    const store = host.adapter
    // The latest exchange with the store: its time by then, and a local time that was surely before.
    let anchor = { localTime: 0, storeTime: 0 }

    /** A local time that is surely not after that of the store. */
    function earliest(storeTime: number): number {
      if (options.datesByReceipt) return clock.now()
      const elapsed = storeTime - anchor.storeTime
      return anchor.localTime + elapsed * (elapsed > 0 ? 1 - DRIFT : 1 + DRIFT)
    }

    const adapter: Adapter = {
      capabilities: {
        ...store.capabilities,
        scope: 'cluster',
        wait: host.waitMode,
        list: false,
        break: false,
      },

      async attempt(request) {
        const localTime = clock.now()
        const { storeTime, answer } = await connection.call(async () => {
          const made = await host.attempt(request)
          return { storeTime: host.time, answer: made }
        })
        anchor = { localTime, storeTime }
        return answer
      },

      withdraw: (request) => connection.call(() => host.withdraw(request)),
      renew: (renewals) => connection.call(() => host.renew(renewals), { onReply: options.onRenewed }),
      release: (grant, keepMs) =>
        connection.call(() => host.change(grant.name, () => store.release(grant, keepMs))),
      async adopt(from, request) {
        return connection.call(() =>
          host.change(from.name, async () => (await store.adopt?.(from, request)) ?? 'lost'),
        )
      },
      inspect: (name) => connection.call(() => store.inspect(name)),
      async close() {
        connection.reset()
      },
    }

    function wait(
      ...[request, maxMs, signal]: Parameters<NonNullable<Adapter['wait']>>
    ): Promise<PushedGrant | undefined> {
      const served = new AbortController()
      return new Promise((resolve, reject) => {
        const tidy = (): void => {
          timer?.cancel()
          signal.removeEventListener('abort', giveUp)
        }
        const giveUp = (): void => {
          tidy()
          connection.send(() => served.abort('the client gave up'))
          resolve(undefined)
        }
        const timer = options.waitsHang ? undefined : clock.timer(maxMs + 20, giveUp)
        signal.addEventListener('abort', giveUp)
        const call = connection.call(() => host.wait(request, maxMs, served.signal), { timeoutMs: Infinity })
        call
          .finally(tidy)
          .then((pushed) => resolve(pushed && { ...pushed, grantedAt: earliest(pushed.grantedAt) }), reject)
      })
    }
    if (host.waitMode !== 'poll') adapter.wait = wait
    return adapter
  }
}
