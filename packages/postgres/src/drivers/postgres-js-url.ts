import { errors } from '../errors.ts'

/** One server of a URL. A host that begins with `/` is the directory of a socket. */
export interface Address {
  readonly host: string
  readonly port: number
}

/**
 * The servers of a URL, as `pg` reads one and libpq reads several: a port before the path belongs to the last host
 * there, or to all hosts of the query.
 */
export function serversIn(url: URL): readonly Address[] {
  const { PGHOST = '', PGPORT = '' } = process.env
  const usual = Number.parseInt(PGPORT || '5432', 10)
  const port = Number(url.port || usual)
  const given = url.searchParams.get('host') ?? ''
  if (given !== '') return given.split(',').map((text) => addressOf(text, port))
  if (url.hostname === '') return (PGHOST || 'localhost').split(',').map((text) => addressOf(text, port))
  const hosts = decoded(decodeURIComponent, url.hostname).split(',')
  return hosts.map((text, n) => addressOf(text, n === hosts.length - 1 ? port : usual))
}

/** The name of the database, or nothing. `pg` does not decode reserved characters in it either. */
export function databaseIn({ pathname }: URL): string {
  return decoded(decodeURI, pathname.slice(1))
}

function decoded(decode: (text: string) => string, text: string): string {
  try {
    return decode(text)
  } catch (error) {
    throw errors.invalid(
      'invalid percent-encoding in url, so no lock can be acquired; write a % as %25',
      error,
    )
  }
}

/** As the library writes it: a host, or a host and its port. */
function addressOf(text: string, usual: number): Address {
  const [, host = text, port = usual] =
    /^\[(.+)\](?::(\d+))?$/.exec(text) ?? /^([^:/]+):(\d+)$/.exec(text) ?? []
  return { host: host || 'localhost', port: Number(port) }
}
