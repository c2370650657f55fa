import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'

export async function emptyDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'locks-newcomer-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** Holds a lock while a second process of it tries to get the same one. */
export const holding = `import { openLocks } from '@locks/core'
import { spawn } from 'node:child_process'
import { once } from 'node:events'

const locks = await openLocks(process.env.LOCKS_URL)
const lease = await locks.lock('order:42').tryAcquire()
console.log(lease === null ? 'taken' : 'held under fence ' + lease.fence)
if (lease !== null && process.argv[2] === 'twice')
  await once(spawn(process.execPath, ['order.mjs'], { stdio: 'inherit' }), 'close')
await lease?.release()
await locks.close()
`

/** Its output is apart: the command has the URL in it. */
class FailedCommand extends Error {
  readonly output: string

  constructor(command: string, output: string) {
    super(`${command}\n${output}`)
    this.output = output
  }
}

/** A shell of a user who knows nothing of this workspace. */
export async function typed(command: string, cwd: string, registry: string): Promise<string> {
  const { PATH = '', HOME = '' } = process.env
  const npm = {
    npm_config_registry: registry,
    npm_config_cache: join(cwd, '.npm'),
    npm_config_userconfig: '',
    // What npx asks at a terminal.
    npm_config_yes: 'true',
  }
  const child = spawn('sh', ['-ec', command], {
    cwd,
    env: { PATH, HOME, ...npm, npm_config_audit: 'false', npm_config_update_notifier: 'false' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const exitCode = await new Promise((resolve) => child.once('close', resolve))
  if (exitCode !== 0) throw new FailedCommand(command, output)
  return output
}

/** What a command that should fail prints. */
export async function failureOf(command: Promise<string>): Promise<string> {
  try {
    return expect.fail(`expected an error, got ${await command}`)
  } catch (error) {
    if (error instanceof FailedCommand) return error.output
    throw error
  }
}
