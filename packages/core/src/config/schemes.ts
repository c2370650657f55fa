import { invalid } from '../adapter/lock-error.ts'

/** The packages that accept URLs, with their schemes and the client library that each needs. */
const served: readonly { name: string; schemes: readonly string[]; client?: string }[] = [
  { name: '@locks/memory', schemes: ['memory'] },
  { name: '@locks/cas', schemes: ['file', 'tair'] },
  {
    name: '@locks/redis',
    schemes: ['redis', 'rediss', 'redis+sentinel', 'redis+cluster'],
    client: 'ioredis',
  },
  { name: '@locks/redlock', schemes: ['redlock'], client: 'ioredis' },
  { name: '@locks/zookeeper', schemes: ['zookeeper'], client: 'node-zookeeper-client' },
  { name: '@locks/postgres', schemes: ['postgres', 'postgresql'], client: 'pg' },
  { name: '@locks/mysql', schemes: ['mysql', 'mariadb'], client: 'mysql2' },
]

/** Our packages that a config can name. */
export const adapters: readonly string[] = served.map(({ name }) => name)

/** The package for each URL scheme. */
export const schemes: ReadonlyMap<string, string> = new Map(
  served.flatMap(({ name, schemes: all }) => all.map((scheme) => [scheme, name])),
)

/** The arguments of `npm install` for an adapter: with its client library, if we know it. */
export function packagesFor(adapter: string): string {
  const client = served.find(({ name }) => name === adapter)?.client
  return client === undefined ? adapter : `${adapter} ${client}`
}

export function adapterOf(url: string): string {
  const scheme = schemeOf(url)
  const name = scheme === undefined ? undefined : schemes.get(scheme)
  if (name !== undefined) return name
  // Not the URL itself: it may contain a password.
  const got = scheme === undefined ? 'no scheme' : `scheme ${scheme}:`
  throw invalid(`unknown backend URL (${got}); known schemes: ${[...schemes.keys()].join(', ')}`)
}

export function schemeOf(text: string): string | undefined {
  return /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[1]?.toLowerCase()
}
