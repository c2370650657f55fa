import { createLocks } from '@locks/core'
import type { Locks, LocksOptions } from '@locks/core'
import { eventually, openTestAdapter, startFaultProxy } from '@locks/core/conformance'
import type { FaultProxy, TestAdapter } from '@locks/core/conformance'
import { zookeeper } from '@locks/zookeeper'
import type { ZookeeperCapabilities, ZookeeperOptions } from '@locks/zookeeper'
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { startService } from '../../../../conformance/services/index.ts'
import type { Server, Service, ServiceKind, Settings } from '../../../../conformance/services/index.ts'
import { directoryOf } from '../../src/paths.ts'
import { ms, rawClient } from './raw-client.ts'
import type { RawClient } from './raw-client.ts'

/** A server for the tests of one file, and clients that are closed after each test. */
export interface Bed {
  readonly servers: string
  readonly service: Service
  readonly server: Server
  open(
    options?: Partial<ZookeeperOptions>,
    core?: LocksOptions<ZookeeperCapabilities>,
  ): Locks<ZookeeperCapabilities>
  /** A client behind a proxy that can disturb its connection. */
  wired(
    options?: Partial<ZookeeperOptions>,
    core?: LocksOptions<ZookeeperCapabilities>,
  ): Promise<{ readonly locks: Locks<ZookeeperCapabilities>; readonly proxy: FaultProxy }>
  /** The adapter without core, behind a proxy if one is given. */
  adapter(options?: Partial<ZookeeperOptions>, proxy?: FaultProxy): BareAdapter
  proxy(): Promise<FaultProxy>
  raw(): Promise<RawClient>
}

export interface BareAdapter extends TestAdapter {
  readonly reports: readonly string[]
}

export function lockName(hint = 'lock'): string {
  return `test:${hint}:${randomUUID()}`
}

export function directory(name: string): string {
  return directoryOf(name, { basePath: '/locks', rawPath: false })
}

export function testBed(kind: ServiceKind = 'zookeeper', settings?: Settings): Bed {
  let running: Service | undefined
  const cleanups: (() => Promise<unknown>)[] = []
  const service = (): Service => {
    if (running === undefined) throw new Error('the service is not started yet')
    return running
  }
  const serversOf = (): string => service().url.replace('zookeeper://', '')
  beforeAll(async () => {
    running = await startService(kind, { needsControl: true, ...(settings && { settings }) })
  })
  afterAll(() => running?.close())
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
  })

  const bed: Bed = {
    get servers() {
      return serversOf()
    },
    get service() {
      return service()
    },
    get server() {
      const [first] = service().servers
      if (first === undefined) throw new Error('no server')
      return first
    },
    open(options = {}, core = {}) {
      // On a busy machine a server may be silent for seconds.
      const patience = { storeTimeoutMs: ms(30_000) }
      const locks = createLocks(zookeeper({ servers: serversOf(), ...options }), { ...patience, ...core })
      cleanups.push(() => locks.close())
      return locks
    },
    async wired(options = {}, core = {}) {
      const proxy = await bed.proxy()
      const locks = bed.open({ servers: `${proxy.host}:${proxy.port}`, ...options }, core)
      cleanups.push(async () => proxy.pass())
      // Not bound by the store timeout of the test: a first connection takes longer than a call.
      const warmUp = await eventually('a connection', ms(30_000), () =>
        locks
          .lock(lockName('warm-up'))
          .acquire()
          .catch(() => undefined),
      )
      await warmUp.release()
      return { locks, proxy }
    },
    adapter(options = {}, proxy) {
      const reports: string[] = []
      const servers = proxy === undefined ? serversOf() : `${proxy.host}:${proxy.port}`
      const factory = zookeeper(options.client === undefined ? { servers, ...options } : options)
      const opened = openTestAdapter(factory, { report: (state) => void reports.push(state) })
      cleanups.push(() => opened.adapter.close())
      // Waits, so that there is a node to check.
      const request: TestAdapter['request'] = (name, more) =>
        opened.request(name, { willWait: true, ...more })
      return { ...opened, request, reports }
    },
    async proxy() {
      const { host, port } = bed.server
      const proxy = await startFaultProxy({ host, port })
      cleanups.push(() => proxy.close())
      return proxy
    },
    async raw() {
      const client = await rawClient(serversOf())
      cleanups.push(async () => client[Symbol.asyncDispose]())
      return client
    },
  }
  return bed
}
