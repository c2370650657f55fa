import { isRecord } from '@locks/core/adapter'
import { Duplex } from 'node:stream'
import { createSecureContext } from 'node:tls'
import { errors } from '../errors.ts'
import { connectTimeoutS } from './connect-timeout.ts'
import type { Target } from './driver.ts'
import { databaseIn, serversIn } from './postgres-js-url.ts'

/** One server to try, as options of the library. */
export interface Place {
  readonly url: string | undefined
  readonly settings: object
  /** Makes the socket, where the program does that itself, for example through a tunnel. */
  readonly socket?: (options: object) => Promise<Duplex>
  /** The password of the program. It is asked for here: a failure would end the process where the library asks. */
  readonly pass?: () => Promise<string>
}

/** By default the library has the system probe an idle connection only after a minute. */
const KEEP_ALIVE_S = 10

/** All servers are tried within the time for connecting, and each has at least a second. */
const timeoutS = (places: number, url?: URL): number => Math.max(1, connectTimeoutS(url) / places)

/** The library would send these to the server as settings, which refuses them. */
const dropped = ['channel_binding', 'client_encoding', 'gssencmode', 'uselibpqcompat', 'connect_timeout']

/** Any server fits: where there is a choice, the library would never connect to a primary. */
const anyServer: ReadonlySet<unknown> = new Set(['any', 'prefer-standby'])

const files = ['sslcert', 'sslkey', 'sslrootcert']

/** What connections have in common with those of the program. The rest is about its statements and its pool. */
const kept = ['path', 'database', 'user', 'sslnegotiation', 'connection', 'prepare']

/** The library tries several servers by connecting again, so each is a connection here. */
export function placesOf(target: Target): readonly Place[] {
  return 'url' in target ? placesIn(new URL(target.url)) : placesLike(target.like)
}

function placesLike(like: object): readonly Place[] {
  const hosts = listOf(valueOf(like, 'host'))
  const ports = listOf(valueOf(like, 'port'))
  const attributes = valueOf(like, 'target_session_attrs')
  const socket = valueOf(like, 'socket')
  const settings = {
    ...Object.fromEntries(kept.map((key) => [key, valueOf(like, key)])),
    ssl: usable(valueOf(like, 'ssl')),
    ...(!anyServer.has(attributes) && { target_session_attrs: attributes }),
    keep_alive: Math.min(KEEP_ALIVE_S, Number(valueOf(like, 'keep_alive')) || KEEP_ALIVE_S),
    connect_timeout: timeoutS(hosts.length),
  }
  return hosts.map((host, n) => ({
    url: undefined,
    settings: { ...settings, host: [host], port: [ports[n]] },
    pass: () => passwordOf(like),
    ...(typeof socket === 'function' && {
      socket: async (options: object) => {
        const made: unknown = await Reflect.apply(socket, undefined, [options])
        if (made instanceof Duplex) return made
        throw errors.invalid('socket of your sql must return a stream')
      },
    }),
  }))
}

function placesIn(url: URL): readonly Place[] {
  const query = url.searchParams
  const servers = serversIn(url)
  const connect_timeout = timeoutS(servers.length, url)
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
  if (anyServer.has(query.get('target_session_attrs'))) query.delete('target_session_attrs')
  const database = databaseIn(url)
  // The library reads hosts in its own way.
  query.delete('host')
  Object.assign(url, { hostname: 'localhost', port: '' })
  const settings = { keep_alive: KEEP_ALIVE_S, connect_timeout }
  return servers.map(({ host, port }) => ({
    url: url.href,
    settings: {
      ...settings,
      host: [host],
      port: [port],
      ...(host.startsWith('/') && { path: `${host}/.s.PGSQL.${port}` }),
      ...(database !== '' && { database }),
    },
  }))
}

async function passwordOf(like: object): Promise<string> {
  const pass = valueOf(like, 'pass')
  const password: unknown = typeof pass === 'function' ? await Reflect.apply(pass, like, []) : pass
  if (typeof password === 'string') return password
  throw errors.invalid('pass of your sql must be a string, or a function that returns one')
}

/** Tried here: an error about it would end the process where the library connects. */
function usable(ssl: unknown): unknown {
  if (!isRecord(ssl)) return ssl
  try {
    Reflect.apply(createSecureContext, undefined, [ssl])
    return ssl
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'unknown error'
    throw errors.invalid(
      `ssl of your sql cannot be used, so no lock can be acquired: ${reason}; correct it`,
      error,
    )
  }
}

function valueOf(options: object, key: string): unknown {
  return Reflect.get(options, key)
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value]
}
