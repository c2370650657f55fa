import { unavailable } from '../errors.ts'
import type { Put, StoreFactory, Versioned, VersionedStore } from '../versioned-store.ts'
import { DEFAULT_PREFIX, RedisLink } from './redis-client.ts'
import { diagnoseServer, valuesOf } from './redis-server.ts'
import type { RedisStoreOptions } from './redis-client.ts'
import { dropScript, getScript, putScript, timeScript } from './redis-script.ts'

/** A versioned store on stock Redis: a hash per key, changed by one script. */
export function redisStore(options: RedisStoreOptions): StoreFactory {
  return () => openRedisStore(new RedisLink(options), options.prefix ?? DEFAULT_PREFIX)
}

function openRedisStore(link: RedisLink, prefix: string): VersionedStore {
  async function get(key: string): Promise<Versioned | undefined> {
    const [version, value] = texts(await link.run(getScript, '1', prefix + key))
    return versioned(version, value)
  }

  async function drop(key: string, { version }: Versioned, idleMs: number): Promise<boolean> {
    const args = [prefix + key, String(version), String(idleMs)]
    const [dropped] = texts(await link.run(dropScript, '1', ...args))
    return dropped === '1'
  }

  return {
    scope: 'cluster',
    fencing: 'clock-assisted',

    get,

    async put(key, value, expected, _durable, idleMs = 0): Promise<Put> {
      const { breaks } = link
      const change = [String(expected ?? ''), value, await link.channelOf(key), String(idleMs)]
      const args = [prefix + key, ...change]
      const answer = texts(await link.run(putScript, '1', ...args))
      const [version = '', there] = answer
      if (there === undefined) return { version: BigInt(version) }
      const current = versioned(version, there)
      // The client may have sent it twice, and others may have come in between.
      if (link.breaks !== breaks && current?.value !== value)
        throw unavailable('the connection broke during a put, which may have acted')
      return { conflict: true, current }
    },

    async now(key) {
      const [seconds, micros] = texts(await link.run(timeScript, '1', prefix + key))
      const ms = Number(seconds) * 1_000 + Number(micros) / 1_000
      if (!Number.isFinite(ms)) throw unavailable('TIME gave an answer that is not understood')
      return ms
    },

    watch: (key, hint) => link.listen(key, (message) => hint(changeIn(message))),

    values: () => valuesOf(link.keys('TYPE', 'hash'), get),

    async *prune(idleMs, isOver, background, keys) {
      // What was released expires; the rest is for those who ask.
      if (background) return
      for await (const key of keys ?? link.keys('TYPE', 'hash')) {
        const current = await get(key)
        yield current !== undefined && isOver(current) && (await drop(key, current, idleMs)) ? 1 : 0
      }
    },

    diagnose: () => diagnoseServer(link),

    close: () => link.close(),
  }
}

function changeIn(message: string): Versioned | undefined {
  const space = message.indexOf(' ')
  return space < 0 ? undefined : versioned(message.slice(0, space), message.slice(space + 1))
}

function versioned(version: unknown, value: unknown): Versioned | undefined {
  if (typeof version !== 'string' || !/^\d+$/.test(version) || typeof value !== 'string') return undefined
  return { version: BigInt(version), value }
}

function texts(reply: unknown): readonly (string | undefined)[] {
  if (!Array.isArray(reply)) throw unavailable('the server gave an answer that is not understood')
  return reply.map((item: unknown) => (typeof item === 'string' ? item : undefined))
}
