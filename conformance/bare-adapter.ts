import { createLocks, systemClock } from '@locks/core'
import type { AcquireRequest, Adapter, AdapterFactory, Grant, Locks, LocksOptions } from '@locks/core'
import { randomUUID } from 'node:crypto'
import { onTestFinished } from 'vitest'

/** A client that is closed when its test is over. */
export function openLocksOf(factory: AdapterFactory, options: LocksOptions = {}): Locks {
  const locks = createLocks(factory, options)
  onTestFinished(() => locks.close())
  return locks
}

export interface BareAdapter {
  readonly adapter: Adapter
  /** Attempts whose hold was reported as lost. */
  readonly lost: string[]
  request(name: string, options?: Partial<AcquireRequest>): AcquireRequest
  take(request: AcquireRequest): Promise<Grant>
}

/** The adapter of a client of its own, without core above it. */
export function bareAdapter(factory: AdapterFactory): BareAdapter {
  const clientId = randomUUID()
  const lost: string[] = []
  const report = (state: string, attemptId?: string): void =>
    void (state === 'lost' && lost.push(String(attemptId)))
  const adapter = factory({ clientId, clock: systemClock, report })
  onTestFinished(() => adapter.close())
  let attempts = 0
  return {
    adapter,
    lost,
    request(name, options) {
      const attemptId = `${clientId}:${++attempts}`
      const metadata = { host: 'test', pid: process.pid }
      const usual = { owner: attemptId, mode: 'exclusive', ttlMs: 30_000, lockDelayMs: 0, metadata } as const
      return { name, attemptId, ...usual, willWait: false, ...options }
    },
    async take(request) {
      const answer = await adapter.attempt(request)
      if ('fence' in answer) return answer
      throw new Error(`${request.name} is held by ${answer.holder?.owner}`)
    },
  }
}

/** Resolves once a client has been told that `lock` is taken. */
export function contended(locks: Locks, lock: string): Promise<void> {
  return new Promise((resolve) => {
    const off = locks.on('contended', (event) => {
      if (event.lock !== lock) return
      off()
      resolve()
    })
  })
}

/** When the lease was lost, on the clock of `performance.now()`. */
export function lossOf({ signal }: { readonly signal: AbortSignal }): Promise<number> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(performance.now())
    else signal.addEventListener('abort', () => resolve(performance.now()), { once: true })
  })
}

export const never: AbortSignal = new AbortController().signal
