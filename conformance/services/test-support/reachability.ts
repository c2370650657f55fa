import { existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'vitest'
import { isAlive } from '../guardian/process-tree.mjs'
import { isFree } from '../ports.ts'
import type { Server, Service } from '../service.ts'
import { eventually, scaled } from '../timing.ts'

export type Ask = (server: Server) => Promise<unknown>

/** A frozen server neither answers nor refuses; it answers the same request once it is resumed. */
export async function expectSilenceWhilePaused(ask: Ask, server: Server): Promise<void> {
  await server.pause()
  const answer = ask(server)
  const first = await Promise.race([answer.then(() => 'answer'), delay(scaled(500), 'silence')])
  expect(first).toBe('silence')
  await server.resume()
  await answer
}

/** Behind a published container port, a proxy accepts and hangs up where the system itself would refuse. */
export async function expectRefusal(ask: Ask, server: Server): Promise<void> {
  await expect(ask(server)).rejects.toThrow(/ECONNREFUSED|ECONNRESET|closed the connection/)
}

export interface Traces {
  readonly ports: readonly number[]
  readonly pids: readonly number[]
  readonly directories: readonly string[]
}

/** What of a service can be seen on this machine; of a container that is only its port. */
export function tracesOf(service: Service): Traces {
  return {
    ports: service.servers.map(({ port }) => port),
    pids: service.servers.flatMap(({ pid }) => (pid === undefined ? [] : [pid])),
    directories: service.servers.flatMap(({ directory }) => (directory === undefined ? [] : [directory])),
  }
}

export async function expectNoTraces({ ports, pids, directories }: Traces): Promise<void> {
  for (const port of ports) await eventually(`port ${port} is free`, () => isFree(port))
  await eventually(`processes ${pids.join(', ')} are gone`, () => !pids.some(isAlive))
  await eventually(`${directories.join(', ')} are gone`, () => !directories.some((path) => existsSync(path)))
}
