import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** What a reader of a page does: type a command, or save a file. */
export type Step = { readonly command: string } | { readonly file: string; readonly text: string }

const root = join(import.meta.dirname, '../..')

/** The steps of a section, word for word and in their order. */
export async function stepsOf(section: string, page = 'README.md'): Promise<readonly Step[]> {
  const text = await readFile(join(root, page), 'utf8')
  const body = text.split(/^## /m).find((part) => part.startsWith(`${section}\n`))
  if (body === undefined) throw new Error(`${page} has no section ${section}`)
  const steps: Step[] = []
  let before = 0
  for (const block of body.matchAll(/^```(\w+)\n([^]*?)^```\n/gm)) {
    const [whole, language, code = ''] = block
    const prose = body.slice(before, block.index)
    before = block.index + whole.length
    if (language === 'sh') {
      for (const command of code.trim().split('\n')) steps.push({ command })
      continue
    }
    const [, file] = /Save this as `([\w.-]+)`/.exec(prose) ?? []
    if (file === undefined) throw new Error(`${page} does not say what to do with:\n${code}`)
    steps.push({ file, text: code })
  }
  return steps
}
