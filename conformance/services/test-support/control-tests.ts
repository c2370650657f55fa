import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import type { Server, Service, ServiceKind, Settings } from '../service.ts'
import { startService } from '../start-service.ts'
import {
  expectNoTraces,
  expectRefusal,
  expectSilenceWhilePaused,
  tracesOf,
  type Ask,
} from './reachability.ts'

export interface Subject {
  readonly kind: ServiceKind
  /** Such that data written before a stop is there after it. */
  readonly settings?: Settings
  readonly ask: Ask
  readonly write: (server: Server) => Promise<unknown>
  readonly isWritten: (server: Server) => Promise<boolean>
}

/** What must hold for every kind of server, as tests of one server that they use in turn. */
export function controlTests({ kind, settings = {}, ask, write, isWritten }: Subject): void {
  let service: Service
  let server: Server

  beforeAll(async () => {
    service = await startService(kind, { settings, needsControl: true })
    const [first] = service.servers
    if (first === undefined) throw new Error(`${kind} has no server`)
    server = first
  })
  afterAll(() => service?.close())

  test('answers its protocol once it is started', async () => {
    await ask(server)
    expect(service.control).toBe(true)
    expect(server.host).toBe('127.0.0.1')
    expect(service.url).toContain(String(server.port))
  })

  test('paused, it keeps silent; resumed, it answers again', async () => {
    await expectSilenceWhilePaused(ask, server)
    await ask(server)
  })

  test('stopped or killed, it refuses connections; started again, it answers on the same port', async () => {
    const { port } = server
    await server.stop()
    await expectRefusal(ask, server)
    await server.start()
    await ask(server)
    await server.kill()
    expect(server.pid).toBeUndefined()
    await expectRefusal(ask, server)
    await server.start()
    await ask(server)
    expect(server.port).toBe(port)
  })

  test('a paused server can be stopped and killed', async () => {
    await server.pause()
    await server.restart()
    await ask(server)
    await server.pause()
    await server.restart({ hard: true })
    await ask(server)
  })

  test('a restart keeps data, also a hard one; a wipe loses it', async () => {
    await write(server)
    await server.restart()
    expect(await isWritten(server)).toBe(true)
    await server.restart({ hard: true })
    expect(await isWritten(server)).toBe(true)
    await server.restart({ wipe: true })
    expect(await isWritten(server)).toBe(false)
  })

  test('a second service has its own port and directory, and close leaves nothing of it', async () => {
    // Some have a blank in the path of their temporary files.
    const temporary = await mkdtemp(join(tmpdir(), 'locks elsewhere '))
    onTestFinished(() => rm(temporary, { recursive: true, force: true }))
    vi.stubEnv('TMPDIR', temporary)
    onTestFinished(() => void vi.unstubAllEnvs())
    const other = await startService(kind, { needsControl: true })
    const traces = tracesOf(other)
    const [twin] = other.servers
    expect(twin?.port).not.toBe(server.port)
    if (server.directory !== undefined) expect(twin?.directory).not.toBe(server.directory)
    await write(server)
    expect(twin && (await isWritten(twin))).toBe(false)
    await other.close()
    await other.close()
    if (twin !== undefined) await expectRefusal(ask, twin)
    await expectNoTraces(traces)
    await ask(server)
  })
}
