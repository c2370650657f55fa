import { eventually, startChild, startFaultProxy } from '@locks/core/conformance'
import type { Child, FaultProxy, TestAdapter } from '@locks/core/conformance'
import { reference, startReferenceServer } from '@locks/reference'
import type { ReferenceServer } from '@locks/reference'
import { onTestFinished } from 'vitest'
import { bareAdapter } from '../../test-support/bare-adapter.ts'

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

/** The adapter of a client of its own, without core above it. */
export function bare({ host, port }: { readonly host: string; readonly port: number }): TestAdapter {
  return bareAdapter(reference({ url: `tcp://${host}:${port}` }))
}

/** Asks until it is so. What is asked for here comes about by itself, or never. */
export async function until(what: string, probe: () => Promise<boolean>): Promise<void> {
  await eventually(what, 10_000, probe)
}
