import { Duplex } from 'node:stream'
import { errors } from '../errors.ts'
import type { Target } from './driver.ts'

/** One server to try, as options of the library. */
export interface Place {
  readonly url: string | undefined
  readonly settings: object
  /** Makes the socket, where the program does that itself, for example through a tunnel. */
  readonly socket?: (options: object) => Promise<Duplex>
}

/** By default the library has the system probe an idle connection only after a minute. */
const KEEP_ALIVE_S = 10

/** The library would send these to the server as settings, which refuses them. */
const dropped = ['channel_binding', 'client_encoding', 'gssencmode', 'uselibpqcompat', 'connect_timeout']

const files = ['sslcert', 'sslkey', 'sslrootcert']

/** What connections have in common with those of the program. The rest is about its statements and its pool. */
const kept = [
  'path',
  'database',
  'user',
  'pass',
  'ssl',
  'sslnegotiation',
  'connection',
  'prepare',
  'target_session_attrs',
]

/** The library tries several servers by connecting again, so each is a connection here. */
export function placesOf(target: Target): readonly Place[] {
  if ('url' in target) return [placeOf(new URL(target.url))]
  const { like } = target
  const hosts = listOf(valueOf(like, 'host'))
  const ports = listOf(valueOf(like, 'port'))
  const probeS = Math.min(KEEP_ALIVE_S, Number(valueOf(like, 'keep_alive')) || KEEP_ALIVE_S)
  const settings = Object.fromEntries(kept.map((key) => [key, valueOf(like, key)]))
  const socket = valueOf(like, 'socket')
  return hosts.map((host, n) => ({
    url: undefined,
    settings: { ...settings, host: [host], port: [ports[n]], keep_alive: probeS },
    ...(typeof socket === 'function' && {
      socket: async (options: object) => {
        const made: unknown = await Reflect.apply(socket, undefined, [options])
        if (made instanceof Duplex) return made
        throw errors.invalid('socket of your sql must return a stream')
      },
    }),
  }))
}

function placeOf(url: URL): Place {
  const query = url.searchParams
  for (const key of dropped) query.delete(key)
  if (query.get('sslrootcert') === 'system') {
    query.delete('sslrootcert')
    query.set('sslmode', 'verify-full')
  }
  const file = files.find((key) => query.has(key))
  if (file !== undefined)
    throw errors.invalid(
      `the package postgres does not read ${file} from a url; give a sql of yours with ssl as pool, or install pg`,
    )
  if (query.get('sslmode') === 'no-verify') query.set('sslmode', 'require')
  if (query.get('target_session_attrs') === 'any') query.delete('target_session_attrs')
  const host = query.get('host')
  query.delete('host')
  return { url: url.href, settings: { keep_alive: KEEP_ALIVE_S, ...(host !== null && { host }) } }
}

function valueOf(options: object, key: string): unknown {
  return Reflect.get(options, key)
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value]
}
