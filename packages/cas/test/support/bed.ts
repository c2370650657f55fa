import type { Clock } from '@locks/core'
import type { AcquireRequest, Adapter, Grant } from '@locks/core/adapter'
import type { TestAdapter } from '@locks/core/conformance'
import { cas } from '@locks/cas'
import type { Put, StoreFactory, Versioned, VersionedStore } from '@locks/cas'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { bareAdapter } from '../../../../conformance/test-support/bare-adapter.ts'
import { calmClock } from '../../../../conformance/test-support/clients.ts'

export interface Bare {
  readonly adapter: Adapter
  /** Default: one name and, by a clock of the test, a short ttl. By that of the system a stall would end it. */
  request(options?: Partial<AcquireRequest>): AcquireRequest
  take(request: AcquireRequest): Promise<Grant>
  readonly renew: TestAdapter['renew']
}

/** The adapter of an independent client, without earlier observations. */
export function bare(open: StoreFactory, clock: Clock = calmClock): Bare {
  const { adapter, request, take, renew } = bareAdapter(cas(open), { clock })
  const ttlMs = clock === calmClock ? 60_000 : 100
  return { adapter, take, renew, request: (options) => request('order', { ttlMs, ...options }) }
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
