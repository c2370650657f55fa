import { readFile } from 'node:fs/promises'
import { UsageError } from './errors.ts'
import { isUrl } from './url.ts'

/** The value in the file that an option names. */
export async function readJsonFile(option: string, file: string): Promise<unknown> {
  // The value is not shown: it may contain a password.
  if (isUrl(file)) throw new UsageError(`${option} takes a file, not a URL`)
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    // The parser's message quotes the file, which may contain a password.
    const why = error instanceof SyntaxError ? 'not valid JSON' : error instanceof Error ? error.message : ''
    throw new UsageError(`cannot read ${option} ${file}: ${why}`)
  }
}
