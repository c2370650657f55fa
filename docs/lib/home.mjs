import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Takes the example, the table of stores and the sections after it from the README, for the home page.
 *
 * @param {string} root the repository
 */
export async function writeHomeParts(root) {
  const readme = await readFile(join(root, 'README.md'), 'utf8')
  const example = /^```ts\n[^]*?^```$/m.exec(readme)?.[0]
  if (example === undefined) throw new Error('README.md has no example')
  const folder = join(root, 'docs/.vitepress/generated')
  await mkdir(folder, { recursive: true })
  const text = [
    example,
    ...['Stores', 'Why it is safe', 'How it compares'].map((heading) => section(readme, heading)),
  ].join('\n\n')
  await writeFile(join(folder, 'home.md'), `${text}\n`)
}

/**
 * @param {string} text
 * @param {string} heading
 */
function section(text, heading) {
  const found = text.split(/^(?=## )/m).find((part) => part.startsWith(`## ${heading}\n`))
  if (found === undefined) throw new Error(`README.md has no section ${heading}`)
  return found.trimEnd()
}
