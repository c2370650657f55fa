import { readFile } from 'node:fs/promises'
import { commands } from './command.ts'
import type { Command } from './command.ts'
import { UsageError } from './errors.ts'
import { exitCodes } from './exit-codes.ts'
import { helpOf, overview } from './help.ts'
import { Session } from './session.ts'
import { quoted } from './url.ts'

/** Runs one call, tidies up after it and answers the exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  const session = new Session()
  const [name = '--help', ...rest] = argv
  try {
    if (name === 'help' && rest[0] !== undefined) {
      session.print(helpOf(rest[0], await commandOf(rest[0]), session.paint))
      return exitCodes.ok
    }
    if (name === '--help' || name === '-h' || name === 'help') {
      session.print(overview(session.paint))
      return argv.length === 0 ? exitCodes.usage : exitCodes.ok
    }
    if (name === '--version' || name === '-v') {
      session.print(await version())
      return exitCodes.ok
    }
    return await call(name, await commandOf(name), rest, session)
  } catch (error) {
    // Core is loaded for commands, not for a word of help.
    const { report } = await import('./report.ts')
    return report(error, name, rest, session)
  } finally {
    await session.end(async (error) => {
      const { reportNotClosed } = await import('./report.ts')
      reportNotClosed(error, rest, session)
    })
  }
}

async function commandOf(name: string): Promise<Command> {
  const known = commands.get(name)
  if (known !== undefined) return known.load()
  const { didYouMean } = await import('@locks/core/adapter')
  const words = [...commands.keys(), '--help', '--version']
  throw new UsageError(`there is no command ${quoted(name)}${didYouMean(name, words)}`)
}

async function call(
  name: string,
  command: Command,
  argv: readonly string[],
  session: Session,
): Promise<number> {
  const { Arguments } = await import('./arguments.ts')
  const args = new Arguments(command, argv)
  if (args.flag('help')) {
    session.print(helpOf(name, command, session.paint))
    return exitCodes.ok
  }
  return Promise.race([command.run(args, session), session.interrupted])
}

async function version(): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8'))
  if (typeof manifest !== 'object' || manifest === null || !('version' in manifest)) return 'unknown'
  return String(manifest.version)
}
