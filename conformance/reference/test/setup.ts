import { systemClock } from '@locks/core'
import type { AcquireRequest, Adapter, Grant } from '@locks/core'
import { startChild, startFaultProxy } from '@locks/core/conformance'
import type { Child, FaultProxy } from '@locks/core/conformance'
import { reference, startReferenceServer } from '@locks/reference'
import type { ReferenceServer } from '@locks/reference'
import { randomUUID } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { onTestFinished } from 'vitest'

export async function startServer(): Promise<ReferenceServer> {
  const server = await startReferenceServer()
  onTestFinished(() => server.kill())
  return server
}

export async function startProxy(server: ReferenceServer): Promise<FaultProxy> {
  const proxy = await startFaultProxy(server)
  onTestFinished(() => proxy.close())
  return proxy
}

/** A process with a client of its own. */
export async function startClient(
  server: ReferenceServer,
  ttlMs: number,
  storeTimeoutMs = 5_000,
): Promise<Child> {
  const child = await startChild()
  onTestFinished(() => child.kill())
  await child.call('open', { config: server.config, options: { ttlMs, storeTimeoutMs } })
  return child
}

export interface Bare {
  readonly adapter: Adapter
  request(name: string, options?: Partial<AcquireRequest>): AcquireRequest
  take(request: AcquireRequest): Promise<Grant>
}

/** The adapter of a client of its own, without core above it. */
export function bareAdapter({ host, port }: { readonly host: string; readonly port: number }): Bare {
  const clientId = randomUUID()
  const url = `tcp://${host}:${port}`
  const adapter = reference({ url })({ clientId, clock: systemClock, report: () => undefined })
  onTestFinished(() => adapter.close())
  let attempts = 0
  return {
    adapter,
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

/** Asks until it is so; the test's time-out is the bound. */
export async function until(probe: () => Promise<boolean>): Promise<void> {
  while (!(await probe())) await turn()
}

export const never: AbortSignal = new AbortController().signal
