import type { Launcher } from '../launcher.ts'
import type { Program } from '../programs/program.ts'
import type { Server, ServiceOptions } from '../service.ts'

/** How a service of one kind is put together out of servers of one program. */
export interface Topology {
  readonly program: Program
  readonly ports: (options: ServiceOptions) => Promise<readonly number[]>
  /** Launches the servers and resolves when they work together. */
  bring(launcher: Launcher, ports: readonly number[], options: ServiceOptions): Promise<Assembly>
}

export interface Assembly {
  readonly url: string
  readonly servers: readonly Server[]
}

export function countOf({ count = 3 }: ServiceOptions): number {
  if (!Number.isSafeInteger(count) || count < 1)
    throw new RangeError(`count must be a positive integer, not ${count}`)
  return count
}

export function portAt(ports: readonly number[], index: number): number {
  const port = ports[index]
  if (port === undefined) throw new RangeError(`this service has no port number ${index}`)
  return port
}

export function hostList(servers: readonly Server[]): string {
  return servers.map(({ host, port }) => `${host}:${port}`).join(',')
}
