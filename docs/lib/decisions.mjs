import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Writes the list of the decision records.
 *
 * @param {string} root the repository
 */
export async function writeDecisions(root) {
  const folder = join(root, 'docs/decisions')
  const files = (await readdir(folder)).filter((file) => /^\d+-.*\.md$/.test(file)).toSorted()
  const lines = await Promise.all(
    files.map(async (file) => {
      const title = /^# (.*)$/m.exec(await readFile(join(folder, file), 'utf8'))?.[1] ?? file
      return `- [${title}](${file})`
    }),
  )
  const about = 'Why the design is as it is: context, choice, and what was rejected.'
  await writeFile(join(folder, 'index.md'), `# Decisions\n\n${about}\n\n${lines.join('\n')}\n`)
}
