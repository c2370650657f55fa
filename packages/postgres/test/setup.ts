import { createLocks, systemClock } from '@locks/core'
import type { AcquireRequest, Adapter, Grant, Locks, LocksOptions } from '@locks/core'
import { fromConfig, migrate } from '@locks/postgres'
import { randomUUID } from 'node:crypto'
import { Client } from 'pg'
import { afterAll, onTestFinished } from 'vitest'
import { startService } from '../../../conformance/services/index.ts'
import type { Server, Settings } from '../../../conformance/services/index.ts'

export type Config = Readonly<Record<string, unknown>>

/** A migrated server for a whole test file. */
export async function startServer(settings: Settings = {}): Promise<Server> {
  const service = await startService('postgres', { settings, needsControl: true })
  afterAll(() => service.close())
  const server = service.server('postgres')
  await migrate({ url: server.url })
  return server
}

export function open(config: Config, options: LocksOptions = {}): Locks {
  const locks = createLocks(fromConfig(config), options)
  onTestFinished(() => locks.close())
  return locks
}

/** A connection of the test's own, past the adapter. */
export async function connect(server: Server): Promise<Client> {
  const client = new Client({ connectionString: server.url })
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

export interface Bare {
  readonly adapter: Adapter
  readonly lost: string[]
  request(name: string, options?: Partial<AcquireRequest>): AcquireRequest
  take(request: AcquireRequest): Promise<Grant>
}

/** The adapter of a client of its own, without core above it. */
export function bare(config: Config): Bare {
  const clientId = randomUUID()
  const lost: string[] = []
  const report = (state: string, attemptId?: string): void =>
    void (state === 'lost' && lost.push(String(attemptId)))
  const adapter = fromConfig(config)({ clientId, clock: systemClock, report })
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

export function lossOf({ signal }: { readonly signal: AbortSignal }): Promise<number> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(performance.now())
    else signal.addEventListener('abort', () => resolve(performance.now()), { once: true })
  })
}

export const never: AbortSignal = new AbortController().signal
