import type { Launcher, Supply } from './launcher.ts'
import { registerLog } from './logs.ts'
import { obtain } from './obtain.ts'
import { isFree, returnPorts } from './ports.ts'
import type { Server, Service, ServiceKind, ServiceOptions } from './service.ts'
import { givenServers, givenService } from './sources/environment.ts'
import { topologies } from './topologies/index.ts'
import type { Assembly } from './topologies/topology.ts'

/** Starts a private service, or hands out the one that the environment names. */
export async function startService(kind: ServiceKind, options: ServiceOptions = {}): Promise<Service> {
  const given = canBeGiven(options) ? givenService(kind) : undefined
  if (given !== undefined) {
    const servers = await givenServers(kind, given)
    return service({ kind, source: 'environment', url: given.url, servers, close: () => Promise.resolve() })
  }
  const supply = (await obtain([kind])).get(kind)
  if (supply === undefined) throw new Error(`there is no supply of ${kind}`)
  return launchService(kind, supply, options)
}

/** A given service cannot be changed, so a caller that asks for changes gets a private one. */
function canBeGiven({ settings, sentinelSettings, env, count, needsControl }: ServiceOptions): boolean {
  return (
    [settings, sentinelSettings, env, count].every((asked) => asked === undefined) && needsControl !== true
  )
}

const attempts = 5

/** Another process may take a port between the moment it was picked and the moment our server binds it. */
export async function launchService(
  kind: ServiceKind,
  supply: Supply,
  options: ServiceOptions,
  pickPorts = topologies[kind].ports,
): Promise<Service> {
  for (let attempt = 1; ; attempt++) {
    const ports = await pickPorts(options)
    try {
      return await launchOn(ports, kind, supply, options)
    } catch (error) {
      await returnPorts(ports)
      if (attempt === attempts || !isPortTaken(error)) throw error
    }
  }
}

async function launchOn(
  ports: readonly number[],
  kind: ServiceKind,
  supply: Supply,
  options: ServiceOptions,
): Promise<Service> {
  // Otherwise a stranger's answer might pass for that of our server, which is about to fail.
  for (const port of ports) if (!(await isFree(port))) throw new Error(`port ${port}: address already in use`)
  const launcher: Launcher = await supply.open(ports, options.env ?? {})
  try {
    const assembly = await topologies[kind].bring(launcher, ports, options)
    const forget = registerLog(() => launcher.log())
    const close = async (): Promise<void> => {
      forget()
      await launcher.close()
      await returnPorts(ports)
    }
    return service({ kind, source: supply.source, ...assembly, close })
  } catch (error) {
    await launcher.close()
    throw error
  }
}

function isPortTaken(error: unknown): boolean {
  return error instanceof Error && /address already in use|port is already allocated/i.test(error.message)
}

interface Parts extends Assembly, Pick<Service, 'kind' | 'source' | 'close'> {}

function service(parts: Parts): Service {
  return {
    ...parts,
    control: parts.source !== 'environment',
    server(name): Server {
      const found = parts.servers.find((one) => one.name === name)
      if (found !== undefined) return found
      throw new Error(
        `${parts.kind} has no server ${name}, only ${parts.servers.map((one) => one.name).join(', ')}`,
      )
    },
    [Symbol.asyncDispose]: parts.close,
  }
}
