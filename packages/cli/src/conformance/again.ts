import { isUrl, showUrl } from '../url.ts'

/** The options for running one rule alone. */
export interface Again {
  readonly target: string
  readonly options?: string
  readonly ttl?: string
}

/** A URL that may contain a password is shown as `URL`. */
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
