import { once } from 'node:events'
import { chmod, mkdir, rmdir } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { guard } from './guardian/guardian.ts'

// Below every usual ephemeral range. A port from that range can be taken by an outgoing connection while
// our server is down, and a client that reconnects to it can even end up connected to itself.
const lowest = 12_000
const highest = 22_000

export interface PortRules {
  /** The port this far above must be free as well (the bus of a Redis Cluster node). */
  readonly companion?: number
}

/** A directory for each port that a test of this machine has, or is about to have. */
const reservations = join(tmpdir(), 'locks-test-ports')

/** Gives up the ports that this process has, by port. */
const reserved = new Map<number, () => Promise<void>>()

/**
 * Picks ports of 127.0.0.1 that nobody listens on, and keeps them from all other tests of this machine
 * until they are returned: a server may bind its last port seconds after it was started, and again
 * after every restart. A stranger may still take one; `startService` then picks again.
 */
export async function freePorts(count: number, { companion }: PortRules = {}): Promise<readonly number[]> {
  const found = new Set<number>()
  for (let tries = 0; found.size < count; tries++) {
    if (tries > 1_000 + count) throw new Error(`no ${count} free ports between ${lowest} and ${highest}`)
    const port = lowest + Math.floor(Math.random() * (highest - lowest))
    if (await take(companion === undefined ? [port] : [port, port + companion])) found.add(port)
  }
  return [...found]
}

/** Returns ports, and their companions, for reuse. Ports of other runs are left alone. */
export async function returnPorts(ports: readonly number[]): Promise<void> {
  for (const port of ports) await reserved.get(port)?.()
}

/** All of them, or none. They are returned together with the first. */
async function take(ports: readonly number[]): Promise<boolean> {
  const taken: (() => Promise<void>)[] = []
  const giveBack = async (): Promise<void> => {
    for (const end of taken.splice(0)) await end()
  }
  for (const port of ports) {
    const end = await reserve(port)
    if (end !== undefined) taken.push(end)
    if (end === undefined || !(await isFree(port))) {
      await giveBack()
      return false
    }
  }
  const [first] = ports
  if (first !== undefined) reserved.set(first, giveBack)
  return true
}

/** Undefined when another test has it. */
async function reserve(port: number): Promise<(() => Promise<void>) | undefined> {
  const path = join(reservations, String(port))
  try {
    await mkdir(path)
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return undefined
    if (!hasCode(error, 'ENOENT')) throw error
    await mkdir(reservations, { recursive: true })
    // Tests of other users have their ports there too.
    await chmod(reservations, 0o1777).catch(() => undefined)
    return reserve(port)
  }
  const forget = guard({ path })
  return async () => {
    reserved.delete(port)
    await rmdir(path)
    forget()
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

export async function isFree(port: number): Promise<boolean> {
  const probe = createServer()
  try {
    probe.listen(port, '127.0.0.1')
    await once(probe, 'listening')
  } catch (error) {
    if (hasCode(error, 'EADDRINUSE')) return false
    throw error
  }
  probe.close()
  await once(probe, 'close')
  return true
}
