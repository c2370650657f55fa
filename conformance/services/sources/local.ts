import { chown, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { guard } from '../guardian/guardian.ts'
import type { Launcher, Supply } from '../launcher.ts'
import { launchScript, type Program } from '../programs/program.ts'
import { controlledServer, logOf, type Handle } from '../server.ts'
import type { Source } from '../service.ts'
import { localProcess } from './local-process.ts'
import { templatesFolder } from './templates.ts'
import { temporaryFilesOf, userOf } from './unprivileged-user.ts'

/** Runs servers as processes of this machine, each in a directory of its own. */
export function localSupply(program: Program, locate: string, source: Source): Supply {
  return { source, program, open: (_ports, env) => Promise.resolve(localLauncher(program, locate, env)) }
}

function localLauncher(program: Program, locate: string, env: Readonly<Record<string, string>>): Launcher {
  const endings: (() => Promise<void>)[] = []
  const handles: Handle[] = []
  const user = userOf(program)
  return {
    async launch(plan) {
      const directory = await mkdtemp(join(temporaryFilesOf(user), `locks-${program.name}-`))
      const release = guard({ path: directory })
      const removal = async (): Promise<void> => {
        await rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
        release()
      }
      if (user !== undefined) await chown(directory, user.uid, user.gid)
      const script = launchScript(locate, plan.launch('127.0.0.1'), templatesFolder())
      const handle = localProcess({
        script,
        directory,
        env,
        user,
        stopSignal: program.stopSignal,
      })
      handles.push(handle)
      endings.push(async () => {
        await handle.kill()
        await removal()
      })
      const server = controlledServer(plan, handle)
      await server.start()
      return server
    },
    log: () => logOf(handles),
    async close() {
      await Promise.all(endings.splice(0).map((end) => end()))
    },
  }
}
