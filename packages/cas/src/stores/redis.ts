import { errors } from '../errors.ts'
import type { Put, StoreFactory, Versioned, VersionedStore } from '../versioned-store.ts'
import { RedisLink } from './redis-client.ts'
import type { RedisStoreOptions } from './redis-options.ts'
import { diagnoseServer, valuesOf } from './redis-server.ts'

/** KEYS the record. Returns [version, value], or nothing of either. */
const GET = `return redis.call('HMGET', KEYS[1], 'version', 'value')`

/** KEYS the record, to reach its server. Returns the time of that server: [seconds, microseconds]. */
const TIME = `return redis.call('TIME')`

/**
 * KEYS the record. ARGV its expected version, the idle time in ms. Deletes it if it has that version and the server's
 * clock is past it by the idle time: the next version is that clock. Returns ['1'] or ['0'].
 */
const DROP = `
local version = redis.call('HGET', KEYS[1], 'version')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if version ~= ARGV[1] or tonumber(version) >= now - ARGV[2] * 1000 then return { '0' } end
redis.call('DEL', KEYS[1])
return { '1' }
`

/**
 * KEYS the record, a hash of `version` and `value`. ARGV the expected version or '', the new value, the channel of
 * changes, how long it is kept in ms or 0. Returns [new version], or [version or '', value] of what is there instead.
 *
 * The version is at least the server's clock in microseconds, so that it also rises after the data was lost, fell back
 * in a failover or expired: it expires once that clock is past it by the idle time. Lua counts exactly up to 2^53,
 * which that clock reaches in 2255.
 */
const PUT = `
local at = redis.call('HMGET', KEYS[1], 'version', 'value')
if (at[1] or '') ~= ARGV[1] then return { at[1] or '', at[2] or '' } end
local time = redis.call('TIME')
local version = time[1] * 1000000 + time[2]
if at[1] and tonumber(at[1]) >= version then version = tonumber(at[1]) + 1 end
local next = string.format('%.0f', version)
redis.call('HSET', KEYS[1], 'version', next, 'value', ARGV[2])
if ARGV[4] == '0' then
  redis.call('PERSIST', KEYS[1])
else
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', version / 1000 + ARGV[4] + 1))
end
redis.call('PUBLISH', ARGV[3], next .. ' ' .. ARGV[2])
return { next }
`

/** A versioned store on stock Redis: a hash per key, changed by one script. */
export function redisStore(options: RedisStoreOptions): StoreFactory {
  return () => openRedisStore(new RedisLink(options))
}

function openRedisStore(link: RedisLink): VersionedStore {
  async function get(key: string): Promise<Versioned | undefined> {
    const [version, value] = texts(await link.run(key, GET))
    return versioned(version, value)
  }

  async function drop(key: string, { version }: Versioned, idleMs: number): Promise<boolean> {
    const [dropped] = texts(await link.run(key, DROP, String(version), String(idleMs)))
    return dropped === '1'
  }

  return {
    scope: 'cluster',
    fencing: 'clock-assisted',

    get,

    async put(key, value, expected, _durable, idleMs = 0): Promise<Put> {
      const { breaks } = link
      const args = [String(expected ?? ''), value, await link.channelOf(key), String(idleMs)]
      const [version = '', there] = texts(await link.run(key, PUT, ...args))
      if (there === undefined) return { version: BigInt(version) }
      const current = versioned(version, there)
      // The client may have sent it twice, and others may have put in between.
      if (link.breaks !== breaks && current?.value !== value)
        throw errors.unavailable('the connection broke during a put, which may have acted')
      return { conflict: true, current }
    },

    async now(key) {
      const [seconds, micros] = texts(await link.run(key, TIME))
      const ms = Number(seconds) * 1_000 + Number(micros) / 1_000
      if (!Number.isFinite(ms)) throw errors.unavailable('the reply to TIME is not a time')
      return ms
    },

    watch: (key, hint) => link.watch(key, (message) => hint(changeIn(message))),

    values: () => valuesOf(link.keys('TYPE', 'hash'), get),

    async *prune(idleMs, isOver, background, keys) {
      // What was released expires by itself; the rest is dropped on request only.
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
  if (!Array.isArray(reply)) throw errors.unavailable('the reply of the server is not a list')
  return reply.map((item: unknown) => (typeof item === 'string' ? item : undefined))
}
