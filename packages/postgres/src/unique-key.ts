import { capabilities, isLockError, orAfter } from '@locks/core/adapter'
import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  Busy,
  Capabilities,
  CapabilitiesOf,
  Grant,
} from '@locks/core/adapter'
import { SPARE_CONNECTIONS, tableAdapter } from '@locks/sql'
import { PostgresConnection } from './connection.ts'
import { diagnose } from './diagnose.ts'
import { leaseTable } from './lease-table.ts'
import { Listener } from './listener.ts'
import { tagOf } from './messages.ts'
import type { Settings } from './options.ts'
import { refusingPoolers } from './pooler.ts'
import { runnerFor } from './runner.ts'
import { strategyRecord } from './strategy.ts'
import { tableCreation } from './tables.ts'
import { Waiters } from './waiters.ts'
import type { Waiter } from './waiters.ts'

/** How often a waiter looks at the store while it cannot listen. */
const POLL_MS = 1_000

/** How long a waiter waits for the listening connection: with a long queue of notifications LISTEN is slow. */
const LISTEN_PATIENCE_MS = 2_000
/** After that it tries to listen again only this often. */
const LISTEN_AGAIN_MS = 5_000

/** At most this many failed withdrawals are remembered, in case a grant still arrives; the oldest are dropped first. */
const MAX_WITHDRAWN = 10_000

const given = { handover: true, lockDelay: true, minHold: true, list: true, break: true } as const
/** With `listen: false`, waiters poll. */
const handingOff = { ...given, wait: 'handoff', fairness: 'fifo' } as const

export type UniqueKeyCapabilities = Capabilities & Omit<CapabilitiesOf<typeof given>, 'wait' | 'fairness'>

export function uniqueKeyAdapter(settings: Settings, { clock }: AdapterHost): Adapter<UniqueKeyCapabilities> {
  const runner = runnerFor(settings, clock)
  const spare = runnerFor({ ...settings, pool: undefined, poolSize: SPARE_CONNECTIONS }, clock)
  const table = leaseTable(settings, runner, spare, clock)
  const waiters = new Waiters(clock)
  /** Waits that were withdrawn here, and perhaps not yet at the store. */
  const withdrawn = new Map<string, Waiter>()
  /** Set once a pooler was detected: listening never works. */
  let pooled = false
  /** After a try to listen that took too long: when to try again. */
  let listenAgainAt = -Infinity

  const listener = new Listener(
    refusingPoolers((closing) => PostgresConnection.open(settings.config, { closing })),
    {
      received(message) {
        if (message.kind === 'next') return waiters.hint(message.tag, message.claimMs)
        const { tag, fence, storeMs } = message
        const wait = waiters.tagged(tag)
        const known = wait ?? withdrawn.get(tag)
        if (known === undefined) return
        // Every role may send messages: one without proof is only a reason to look at the store.
        if (!message.proven(known.secret)) return waiters.hint(tag, 0)
        // Its withdrawal failed. If this one fails too, the claim expires.
        if (wait === undefined) return void withdraw(known.request).catch(() => undefined)
        const { name, attemptId } = wait.request
        const ttlMs = Math.min(message.ttlMs, wait.request.ttlMs, settings.claimTtlMs)
        const localMs = table.localMs(storeMs)
        if (localMs === undefined) return waiters.granted(wait, undefined)
        // If the server's clock was set forward meanwhile, the grant must not seem to lie in the future.
        waiters.granted(wait, { name, attemptId, fence, ttlMs, grantedAt: Math.min(clock.now(), localMs) })
      },
      disconnected: () => waiters.wakeAll(),
    },
    clock,
  )

  async function ask(...call: Parameters<typeof table.attempt>): Promise<Grant | Busy> {
    const answer = await table.attempt(...call)
    if ('fence' in answer) waiters.forget(answer.attemptId)
    return answer
  }

  async function attempt(request: AcquireRequest): Promise<Grant | Busy> {
    // A name that is free needs no place in the queue, and no secret for it.
    const taken = await table.take(request)
    if (taken !== undefined) {
      waiters.forget(request.attemptId)
      return taken
    }
    if (!request.willWait || !settings.listen) return ask(request)
    if (!listener.ready) {
      const answer = await ask(request)
      if ('fence' in answer) return answer
      waiters.expect(request)
      // The server answers, but messages cannot be received: poll.
      if (pooled || !(await listens())) return polled(answer)
    }
    const { secret } = waiters.expect(request)
    const answer = await ask(request, { key: await listener.key(), secret })
    if ('busy' in answer) listener.prove()
    return answer
  }

  /** Whether the listening connection is ready. One that opens slowly may be ready the next time. */
  async function listens(): Promise<boolean> {
    if (clock.now() < listenAgainAt) return false
    const opened = listener.key().then(
      () => true,
      (error: unknown) => {
        pooled = isLockError(error, 'LOCK_UNSUPPORTED')
        return false
      },
    )
    const ready = await orAfter(clock, LISTEN_PATIENCE_MS, opened)
    if (ready === undefined) listenAgainAt = clock.now() + LISTEN_AGAIN_MS
    return ready === true
  }

  function polled(busy: Busy): Busy {
    return { ...busy, retryInMs: Math.min(busy.retryInMs ?? POLL_MS, POLL_MS) }
  }

  async function withdraw(request: AcquireRequest): Promise<void> {
    const wait = waiters.forget(request.attemptId)
    if (wait !== undefined) withdrawn.set(wait.tag, wait)
    const [oldest] = withdrawn.keys()
    if (withdrawn.size > MAX_WITHDRAWN && oldest !== undefined) withdrawn.delete(oldest)
    await table.withdraw(request)
    if (withdrawn.size > 0) withdrawn.delete(tagOf(request.attemptId))
  }

  const { localMs: _, take: __, ...verbs } = table
  const adapter = {
    ...verbs,
    name: '@locks/postgres',
    capabilities: settings.listen ? capabilities(handingOff) : capabilities(given),
    attempt,
    withdraw,
    diagnose: () => diagnose(settings, clock),

    ...(settings.listen && {
      wait: (request: AcquireRequest, maxMs: number, signal: AbortSignal) =>
        waiters.until(request.attemptId, maxMs, signal),
    }),

    async close() {
      waiters.wakeAll()
      await Promise.all([listener.close(), runner.close(), spare.close()])
    },
  } satisfies Adapter<UniqueKeyCapabilities>
  const record = strategyRecord(settings, runner)
  const creation = tableCreation(settings)
  return tableAdapter(adapter, { ...settings, strategy: 'unique-key', record, creation }, clock)
}
