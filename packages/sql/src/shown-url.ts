/** Where a database is, as far as known from options or a pool. */
export interface Address {
  readonly user?: unknown
  readonly host?: unknown
  readonly port?: unknown
  readonly database?: unknown
}

/**
 * The URL of a database for a command line: without its password, quoted where a shell would interpret it, and just
 * `URL` where too little is known.
 */
export function shownUrl(
  scheme: string,
  { user, host, port, database }: Address,
  options: Readonly<Record<string, string | undefined>>,
): string {
  if (typeof host !== 'string' || host === '' || typeof database !== 'string' || database === '') return 'URL'
  const login = typeof user === 'string' && user !== '' ? `${encodeURIComponent(user)}@` : ''
  const at = typeof port === 'number' || typeof port === 'string' ? `:${port}` : ''
  const server = host.includes(':') ? `[${host}]` : host
  const given = Object.entries(options).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const query = given.length === 0 ? '' : `?${new URLSearchParams(given).toString()}`
  const url = `${scheme}://${login}${server}${at}/${encodeURIComponent(database)}${query}`
  if (/^[\w.:/@%[\]-]+$/.test(url)) return url
  return url.includes("'") ? 'URL' : `'${url}'`
}
