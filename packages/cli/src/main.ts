import { readFile } from 'node:fs/promises'
import { commands } from './command.ts'
import type { Command } from './command.ts'
import { UsageError } from './errors.ts'
import { exitCodes } from './exit-codes.ts'
import { helpOf, overview } from './help.ts'
import { Invocation } from './invocation.ts'
import { quoted } from './url.ts'

/** Runs one invocation, cleans up after it and returns the exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  const invocation = new Invocation()
  const [name = '--help', ...rest] = argv
  try {
    if (name === 'help' && rest[0] !== undefined) {
      invocation.print(helpOf(rest[0], await commandOf(rest[0]), invocation.paint))
      return exitCodes.ok
    }
    if (name === '--help' || name === '-h' || name === 'help') {
      invocation.print(overview(invocation.paint))
      return argv.length === 0 ? exitCodes.usage : exitCodes.ok
    }
    if (name === '--version' || name === '-v') {
      invocation.print(await version())
      return exitCodes.ok
    }
    return await call(name, await commandOf(name), rest, invocation)
  } catch (error) {
    // Core is loaded only when needed: help works without it.
    const { report } = await import('./report.ts')
    return report(error, name, rest, invocation)
  } finally {
    await invocation.end(async (error) => {
      const { reportNotClosed } = await import('./report.ts')
      reportNotClosed(error, rest, invocation)
    })
  }
}

async function commandOf(name: string): Promise<Command> {
  const known = commands.get(name)
  if (known !== undefined) return known.load()
  const { didYouMean } = await import('@locks/core/adapter')
  const words = [...commands.keys(), '--help', '--version']
  throw new UsageError(`unknown command ${quoted(name)}${didYouMean(name, words)}`)
}

async function call(
  name: string,
  command: Command,
  argv: readonly string[],
  invocation: Invocation,
): Promise<number> {
  const { Arguments } = await import('./arguments.ts')
  const args = new Arguments(command, argv)
  if (args.flag('help')) {
    invocation.print(helpOf(name, command, invocation.paint))
    return exitCodes.ok
  }
  return Promise.race([command.run(args, invocation), invocation.interrupted])
}

async function version(): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8'))
  if (typeof manifest !== 'object' || manifest === null || !('version' in manifest)) return 'unknown'
  return String(manifest.version)
}
