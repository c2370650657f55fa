import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

const commands = ['run', 'inspect', 'ls', 'break', 'doctor', 'conformance', 'bench']

/**
 * Writes the page of the command line: its README, then the help of each command.
 *
 * @param {string} root the repository
 */
export async function writeCommandLine(root) {
  const folder = join(root, 'packages/cli')
  const readme = await readFile(join(folder, 'README.md'), 'utf8')
  /** @type {{ bin: { locks: string } }} */
  const { bin } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
  const help = await Promise.all(
    commands.map(async (command) => {
      const { stdout } = await run(process.execPath, [join(folder, bin.locks), command, '--help'])
      // The exit codes are the same everywhere, and in the README.
      const [own = ''] = stdout.split(/^Exit codes$/m)
      return `### locks ${command}\n\n\`\`\`text\n${own.trim()}\n\`\`\``
    }),
  )
  // Lines of help are as long as a terminal is wide.
  const wide = '---\naside: false\npageClass: wide\n---'
  const page = [wide, readme.trimEnd(), '## Help', 'The output of `locks COMMAND --help`.', ...help].join(
    '\n\n',
  )
  await writeFile(join(root, 'docs/command-line.md'), `${page}\n`)
}
