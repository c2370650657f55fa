import { isUrl, showUrl } from '../url.ts'

/** What runs one rule alone, with the options of this run. */
export interface Again {
  readonly target: string
  readonly options?: string
  readonly ttl?: string
}

/** A URL that may hold a password, or more than can be shown, is left for the reader to fill in. */
export function againCommand({ target, options, ttl }: Again, id: string): string {
  const shown = isUrl(target) && showUrl(target) !== target ? 'URL' : shellWord(target)
  return [
    ...['locks', 'conformance', shown, '--only', id],
    ...(options === undefined ? [] : ['--options', shellWord(options)]),
    ...(ttl === undefined ? [] : ['--ttl', shellWord(ttl)]),
  ].join(' ')
}

function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`
}
