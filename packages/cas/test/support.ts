import type { AcquireRequest, Adapter, Busy, Clock, Grant, Timer } from '@locks/core'
import { systemClock } from '@locks/core'
import { cas } from '@locks/cas'
import type { Put, StoreFactory, Versioned, VersionedStore } from '@locks/cas'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Monotonic time that moves when told. Timers run when their time has come and somebody moves it. */
export class Hand implements Clock {
  readonly timers = new Set<{ at: number; fire: () => void }>()
  #now = 1_000

  now(): number {
    return this.#now
  }

  random(): number {
    return 0.5
  }

  timer(delayMs: number, fire: () => void): Timer {
    const entry = { at: this.#now + delayMs, fire }
    this.timers.add(entry)
    return { cancel: () => void this.timers.delete(entry), keepAlive: () => undefined }
  }

  move(ms: number): void {
    this.#now += ms
    for (const entry of [...this.timers].sort((a, b) => a.at - b.at))
      if (entry.at <= this.#now && this.timers.delete(entry)) entry.fire()
  }
}

export interface Bare {
  readonly adapter: Adapter
  request(options?: Partial<AcquireRequest>): AcquireRequest
}

let clients = 0

/** The adapter of a client of its own, with what nobody else has seen. */
export function bare(open: StoreFactory, clock: Clock = systemClock): Bare {
  const clientId = `client-${++clients}`
  const adapter = cas(open)({ clientId, clock, report: () => undefined })
  onTestFinished(() => adapter.close())
  let attempts = 0
  return {
    adapter,
    request(options) {
      const attemptId = `${clientId}:${++attempts}`
      const metadata = { host: 'test', pid: process.pid }
      const usual = { owner: attemptId, mode: 'exclusive', ttlMs: 100, lockDelayMs: 0, metadata } as const
      return { name: 'order', attemptId, ...usual, willWait: false, ...options }
    },
  }
}

export async function take({ adapter }: Bare, request: AcquireRequest): Promise<Grant> {
  const answer: Grant | Busy = await adapter.attempt(request)
  if ('fence' in answer) return answer
  throw new Error(`${request.name} is held by ${answer.holder?.owner}`)
}

export async function isBusy({ adapter }: Bare, request: AcquireRequest): Promise<boolean> {
  return 'busy' in (await adapter.attempt(request))
}

export type Lost = 'before' | 'after'

/** Counts what the store is asked, and fails puts before or after they acted. */
export function troubled(open: StoreFactory): {
  readonly open: StoreFactory
  readonly asked: { get: number; put: number }
  /** What becomes of the next puts, one entry each. */
  readonly trouble: (Lost | 'twice' | undefined)[]
} {
  const asked = { get: 0, put: 0 }
  const trouble: (Lost | 'twice' | undefined)[] = []
  const wrap = (inner: VersionedStore): VersionedStore => ({
    ...inner,
    get(key): Promise<Versioned | undefined> {
      asked.get += 1
      return inner.get(key)
    },
    async put(key, value, expected, durable): Promise<Put> {
      asked.put += 1
      const next = trouble.shift()
      if (next === 'before') throw new Error('lost on its way')
      const answer = await inner.put(key, value, expected, durable)
      if (next === 'after') throw new Error('its answer was lost')
      // As a client library that resends what a broken connection left unanswered.
      return next === 'twice' ? inner.put(key, value, expected, durable) : answer
    },
  })
  return { open: () => wrap(open()), asked, trouble }
}

export async function temporaryDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'locks-cas-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}
