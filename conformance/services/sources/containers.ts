import { GenericContainer, getContainerRuntimeClient, ImageName, Wait } from 'testcontainers'
import { guard } from '../guardian/guardian.ts'
import type { Launcher, Supply } from '../launcher.ts'
import { launchScript, type Program } from '../programs/program.ts'
import { controlledServer, logOf, type Handle } from '../server.ts'
import { containerHandle, directoryInside } from './container-handle.ts'
import type { DockerEngine } from './docker-engine.ts'

/** Pulls the image if need be; rejects when it is not available. */
export async function containerSupply(program: Program, engine: DockerEngine): Promise<Supply> {
  const image = process.env[`LOCKS_TEST_${program.name.toUpperCase()}_IMAGE`] ?? program.image
  const client = await getContainerRuntimeClient()
  await client.image.pull(ImageName.fromString(image))
  return {
    source: 'container',
    program,
    open: (ports, env) => containerLauncher({ program, engine, image, ports, env }),
  }
}

interface Opening {
  readonly program: Program
  readonly engine: DockerEngine
  readonly image: string
  readonly ports: readonly number[]
  readonly env: Readonly<Record<string, string>>
}

async function containerLauncher({ program, engine, image, ports, env }: Opening): Promise<Launcher> {
  const client = await getContainerRuntimeClient()
  const endings: (() => Promise<void>)[] = []
  const handles: Handle[] = []

  async function run(
    script: string,
    networkMode: string | undefined,
    published: readonly number[],
  ): Promise<string> {
    let id = ''
    const container = new PrivateContainer(image, published, (created) => {
      id = created
      const release = guard({ container: created, socketPath: engine.socketPath })
      endings.push(async () => {
        await client.container.getById(created).remove({ force: true, v: true })
        release()
      })
    })
    container.withEntrypoint(['sh', '-c']).withCommand([script]).withUser('nobody').withEnvironment(env)
    // The guardian removes it, so the library need not run a container of its own for that.
    container.withAutoCleanup(false)
    if (networkMode !== undefined) container.withNetworkMode(networkMode)
    // The server answers when its protocol says so; all that matters here is that it was started.
    await container.withWaitStrategy(Wait.forListeningPorts()).start()
    return id
  }

  async function close(): Promise<void> {
    // Last first: the container that owns the network goes after those that use it.
    for (const end of endings.splice(0).toReversed()) await end()
  }

  // Servers of one service find each other on 127.0.0.1. Where that is not the engine's, they share the
  // network of an idle container, which publishes their ports and stays when one of them is stopped.
  let network = 'host'
  if (!engine.sharesOurNetwork) {
    try {
      network = `container:${await run('exec sleep infinity', undefined, ports)}`
    } catch (error) {
      await close()
      throw error
    }
  }
  const listen = engine.sharesOurNetwork ? '127.0.0.1' : '0.0.0.0'

  return {
    async launch(plan) {
      const script = launchScript(program.locateInImage, plan.launch(listen))
      const create = (): Promise<string> =>
        run(`mkdir -p ${directoryInside} && cd ${directoryInside}\n${script}`, network, [])
      const handle = containerHandle(client, create, program.stopSignal)
      handles.push(handle)
      const server = controlledServer(plan, handle)
      await server.start()
      return server
    },
    log: () => logOf(handles),
    close,
  }
}

class PrivateContainer extends GenericContainer {
  readonly #created: (id: string) => void

  constructor(image: string, published: readonly number[], created: (id: string) => void) {
    super(image)
    this.#created = created
    this.createOpts.ExposedPorts = Object.fromEntries(published.map((port) => [`${port}/tcp`, {}]))
    this.hostConfig.PortBindings = Object.fromEntries(
      published.map((port) => [`${port}/tcp`, [{ HostIp: '127.0.0.1', HostPort: String(port) }]]),
    )
  }

  // Before it starts, so that there is no moment in which nobody would remove it.
  protected override containerCreated(id: string): Promise<void> {
    this.#created(id)
    return Promise.resolve()
  }
}
