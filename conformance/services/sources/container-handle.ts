import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { ContainerRuntimeClient } from 'testcontainers'
import type { Handle } from '../server.ts'
import { eventually } from '../timing.ts'

export const directoryInside = '/tmp/locks-server'

/** A stopped container keeps its files, so a restart is a start of the same container. */
export function containerHandle(
  client: ContainerRuntimeClient,
  create: () => Promise<string>,
  stopSignal: NodeJS.Signals,
): Handle {
  let id: string | undefined

  function existing(): ReturnType<typeof client.container.getById> {
    if (id === undefined) throw new Error('the container was never started')
    return client.container.getById(id)
  }

  async function running(): Promise<boolean> {
    return id !== undefined && (await existing().inspect()).State.Running
  }

  async function gone(): Promise<void> {
    await eventually(`container ${id} is stopped`, async () => !(await running()), { withinMs: 15_000 })
  }

  return {
    pid: undefined,
    directory: undefined,
    running,
    async launch() {
      if (id === undefined) id = await create()
      else await existing().start()
    },
    async terminate() {
      await existing().kill({ signal: stopSignal })
      await gone()
    },
    async kill() {
      await existing().kill({ signal: 'SIGKILL' })
      await gone()
    },
    async pause() {
      await existing().pause()
    },
    async resume() {
      await existing().unpause()
    },
    async signal(pid, signal) {
      // The shell's own `kill`: many images have no such program.
      const command = ['sh', '-c', `kill -s ${signal.slice('SIG'.length)} ${pid}`]
      const { exitCode, output } = await client.container.exec(existing(), command)
      if (exitCode !== 0) throw new Error(`cannot signal process ${pid}: ${output}`)
    },
    async markForWipe() {
      await client.container.putArchive(
        existing(),
        Readable.from([emptyFileArchive('wipe')]),
        directoryInside,
      )
    },
    async log() {
      if (id === undefined) return '(none)'
      return (await text(await client.container.logs(existing(), { tail: 20 }))).trimEnd()
    },
  }
}

/** A tar archive of one empty file, for a container that is not running and cannot be asked to `touch`. */
function emptyFileArchive(name: string): Buffer {
  const header = Buffer.alloc(512)
  header.write(name, 0)
  header.write('0000644\0' + '0000000\0' + '0000000\0' + '00000000000\0' + '00000000000\0', 100)
  header.write('        ', 148)
  header.write('0', 156)
  header.write('ustar\0' + '00', 257)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return Buffer.concat([header, Buffer.alloc(1024)])
}
