import type { Capabilities } from './capabilities.ts'
import type { Adapter, Grant } from './spi.ts'

/** An adapter with the methods that core always calls. */
export type CompleteAdapter<C extends Capabilities = Capabilities> = Adapter<C> &
  Required<Pick<Adapter<C>, 'withdraw' | 'close'>>

/** What core calls where an adapter lacks a method. Without a queue, a request can leave nothing but a hold. */
export function fallbacksOf(adapter: Adapter): Pick<CompleteAdapter, 'withdraw' | 'close'> {
  const withdraw = adapter.withdraw?.bind(adapter)
  const close = adapter.close?.bind(adapter)
  return {
    withdraw: withdraw ?? (({ name, attemptId, ttlMs }) => released({ name, attemptId, ttlMs, fence: 0n })),
    close: close ?? (() => Promise.resolve()),
  }

  async function released(grant: Grant): Promise<void> {
    await adapter.release(grant)
  }
}
