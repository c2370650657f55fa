import { existsSync } from 'node:fs'
import { request } from 'node:http'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { scaled } from '../timing.ts'

/** A Docker engine that answers on a local socket. */
export interface DockerEngine {
  readonly socketPath: string
  /** Whether `--network host` means this machine, and not a virtual one or a namespace. */
  readonly sharesOurNetwork: boolean
}

/** Finds the engine, or says why there is none. Quick, as it runs before every service. */
export async function findDockerEngine(): Promise<DockerEngine | string> {
  if (process.env['LOCKS_TEST_CONTAINERS'] === '0') return 'switched off by LOCKS_TEST_CONTAINERS=0'
  const host = process.env['DOCKER_HOST']
  if (host !== undefined && !host.startsWith('unix://')) return 'DOCKER_HOST is not a local socket'
  const candidates = host === undefined ? usualSockets() : [host.slice('unix://'.length)]
  const socketPath = candidates.find((path) => existsSync(path))
  if (socketPath === undefined) return 'no Docker engine (no socket)'
  let network: string
  try {
    network = await bridgeNetwork(socketPath)
  } catch (error) {
    return `the Docker engine does not answer (${error instanceof Error ? error.message : 'unknown error'})`
  }
  const asked = process.env['LOCKS_TEST_CONTAINER_NETWORK']
  if (asked === 'host' || asked === 'published') return { socketPath, sharesOurNetwork: asked === 'host' }
  const sharesOurNetwork = isBridgeOfOurs(network)
  // The ports of containers beside us are published on 127.0.0.1 of somewhere else.
  if (!sharesOurNetwork && existsSync('/.dockerenv')) return 'this is itself a container'
  return { socketPath, sharesOurNetwork }
}

function usualSockets(): string[] {
  const runtime = process.env['XDG_RUNTIME_DIR']
  return [
    '/var/run/docker.sock',
    ...(runtime === undefined ? [] : [join(runtime, 'docker.sock')]),
    join(homedir(), '.docker', 'run', 'docker.sock'),
    join(homedir(), '.docker', 'desktop', 'docker.sock'),
  ]
}

/** Its bridge is an interface of ours, unless the engine lives in a virtual machine or a namespace. */
function isBridgeOfOurs(network: string): boolean {
  const bridge = /"com\.docker\.network\.bridge\.name":"([\w.-]+)"/.exec(network)?.[1]
  return bridge !== undefined && existsSync(`/sys/class/net/${bridge}`)
}

function bridgeNetwork(socketPath: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const timeout = scaled(3_000)
    const asking = request({ socketPath, path: '/networks/bridge', timeout }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      // Whatever it says: an engine without a bridge is an engine nevertheless.
      response.once('end', () => resolve(text)).once('error', reject)
    })
    asking.once('timeout', () => asking.destroy(new Error(`no answer within ${timeout} ms`)))
    asking.once('error', reject).end()
  })
}
