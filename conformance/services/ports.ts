import { once } from 'node:events'
import { createServer } from 'node:net'

// Below every usual ephemeral range. A port from that range can be taken by an outgoing connection while
// our server is down, and a client that reconnects to it can even end up connected to itself.
const lowest = 12_000
const highest = 22_000

export interface PortRules {
  /** The port this far above must be free as well (the bus of a Redis Cluster node). */
  readonly companion?: number
}

/**
 * Picks ports of 127.0.0.1 that nobody listens on. Another process may still take one before our server
 * does; `startService` then picks again.
 */
export async function freePorts(count: number, { companion }: PortRules = {}): Promise<readonly number[]> {
  const found = new Set<number>()
  for (let tries = 0; found.size < count; tries++) {
    if (tries > 1_000 + count) throw new Error(`no ${count} free ports between ${lowest} and ${highest}`)
    const port = lowest + Math.floor(Math.random() * (highest - lowest))
    if (found.has(port)) continue
    if (!(await isFree(port))) continue
    if (companion !== undefined && !(await isFree(port + companion))) continue
    found.add(port)
  }
  return [...found]
}

export async function isFree(port: number): Promise<boolean> {
  const probe = createServer()
  try {
    probe.listen(port, '127.0.0.1')
    await once(probe, 'listening')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return false
    throw error
  }
  probe.close()
  await once(probe, 'close')
  return true
}
