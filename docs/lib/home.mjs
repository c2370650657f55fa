import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Takes the example, the promises and the table of adapters for the home page from the README.
 *
 * @param {string} root the repository
 */
export async function writeHomeParts(root) {
  const readme = await readFile(join(root, 'README.md'), 'utf8')
  const example = /^```ts\n[^]*?^```$/m.exec(readme)?.[0]
  if (example === undefined) throw new Error('README.md has no example')
  const folder = join(root, 'docs/.vitepress/generated')
  await mkdir(folder, { recursive: true })
  const text = [example, section(readme, 'Adapters'), section(readme, 'What you get')].join('\n\n')
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
