import type { Put, StoreFactory, Versioned, VersionedStore } from '@locks/core/adapter'
import { errors, uncertainPut } from '../errors.ts'
import { RedisLink } from './redis-client.ts'
import { leftoversFinding } from './redis-leftovers.ts'
import type { RedisStoreOptions } from './redis-options.ts'
import { diagnoseServer, valuesOf } from './redis-server.ts'
import { Strays } from './redis-strays.ts'

// A record is one text, `locks:version value`, which Redis reads and writes faster than a hash. No text of an
// application begins like that by chance.

/** Sets `at`, the record or false, and `version`, its version or ''. Refuses a text that is not a record. */
const READ = `
local at = redis.call('GET', KEYS[1])
local version = at and string.match(at, '^locks:(%d+) ') or ''
if at and (version == '' or #version > 19) then
  return redis.error_reply('WRONGTYPE the key does not hold a record of this store')
end
`

/** KEYS the record. Returns it, or nothing. */
const GET = `${READ} return at`

/** KEYS any string. Returns it if it is a record. Texts of an application may be long, and are not sent. */
const LOOK = `
if redis.call('GETRANGE', KEYS[1], 0, 5) ~= 'locks:' then return false end
return redis.call('GET', KEYS[1])
`

/** KEYS the record, to reach its server. Returns the time of that server: [seconds, microseconds]. */
const TIME = `return redis.call('TIME')`

/**
 * KEYS the record. ARGV its expected version, the idle time in ms. Deletes it if it has that version and the server's
 * clock is past it by the idle time: the next version is that clock. Returns '1' or '0'.
 */
const DROP = `${READ}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if version ~= ARGV[1] or tonumber(version) >= now - ARGV[2] * 1000 then return '0' end
redis.call('DEL', KEYS[1])
return '1'
`

/**
 * KEYS the record. ARGV the expected version or '', the new value, the channel of changes, how long it is kept in ms
 * or 0. Returns the new version, or [the record or ''] that is there instead.
 *
 * The version is at least the server's clock in microseconds, so that it also rises after the data was lost, fell back
 * in a failover or expired: it expires once that clock is past it by the idle time. Lua counts exactly up to 2^53,
 * which that clock reaches in 2255.
 */
const PUT = `${READ}
if version ~= ARGV[1] then return { at or '' } end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local next = now
if at and tonumber(version) >= now then next = tonumber(version) + 1 end
local text = string.format('%.0f', next)
local record = 'locks:' .. text .. ' ' .. ARGV[2]
if ARGV[4] == '0' then
  redis.call('SET', KEYS[1], record)
elseif next == now then
  redis.call('SET', KEYS[1], record, 'PX', ARGV[4])
else
  redis.call('SET', KEYS[1], record, 'PXAT', string.format('%.0f', next / 1000 + ARGV[4]))
end
redis.call('PUBLISH', ARGV[3], record)
return text
`

/** A versioned store on stock Redis: a text per key, changed by one script. */
export function redisStore(options: RedisStoreOptions): StoreFactory {
  return () => openRedisStore(new RedisLink(options))
}

function openRedisStore(link: RedisLink): VersionedStore {
  const get = async (key: string): Promise<Versioned | undefined> => recordIn(await link.run(key, GET))
  /** Anything may be among the keys of a server. */
  const look = async (key: string): Promise<Versioned | undefined> => recordIn(await link.run(key, LOOK))
  const drop = async (key: string, { version }: Versioned, idleMs: number): Promise<boolean> =>
    (await link.run(key, DROP, String(version), String(idleMs))) === '1'

  const now = async (key: string): Promise<number> => {
    const [seconds, micros] = listOf(await link.run(key, TIME))
    const ms = Number(seconds) * 1_000 + Number(micros) / 1_000
    if (!Number.isFinite(ms))
      throw errors.unavailable(
        'the reply to TIME is not a time, so it is unknown who holds the lock; check the server',
      )
    return ms
  }
  const values = (): AsyncGenerator<Versioned> => valuesOf(link.keys('TYPE', 'string'), look)
  // Of a Cluster any one server's clock: dropping asks that of the key.
  const strays = new Strays({ pages: () => link.pages('TYPE', 'string'), look, now: () => now(''), drop })

  return {
    scope: 'cluster',
    fencing: 'clock-assisted',

    get,

    async put(key, value, expected, _durable, idleMs = 0): Promise<Put> {
      const { breaks } = link
      // One more, since Redis counts whole milliseconds.
      const keptMs = idleMs === 0 ? 0 : idleMs + 1
      const args = [String(expected ?? ''), value, await link.channelOf(key), String(keptMs)]
      const reply = await link.run(key, PUT, ...args)
      if (typeof reply === 'string' && /^\d+$/.test(reply)) return { version: BigInt(reply) }
      const current = recordIn(listOf(reply)[0])
      // The client may have sent it twice, and others may have put in between.
      if (link.breaks !== breaks && current?.value !== value) throw uncertainPut()
      return { conflict: true, current }
    },

    now,

    watch: (key, hint) => link.watch(key, (message) => hint(recordIn(message))),

    values,

    async *prune(idleMs, isOver, background, keys) {
      // What was released expires by itself.
      if (background) {
        if (await link.hasPrefix()) yield* strays.prune(idleMs, isOver)
        return
      }
      for await (const key of keys ?? link.keys('TYPE', 'string')) {
        const current = await look(key)
        yield current !== undefined && isOver(current) && (await drop(key, current, idleMs)) ? 1 : 0
      }
    },

    diagnose: async () => [...(await diagnoseServer(link)), await leftoversFinding(values(), await now(''))],

    close: () => link.close(),
  }
}

/** Undefined if it is not a record. Anyone may publish one, so its version has a limited length. */
function recordIn(text: unknown): Versioned | undefined {
  const match = typeof text === 'string' ? /^locks:(\d{1,19}) (.*)$/s.exec(text) : null
  const [, version, value] = match ?? []
  return version === undefined || value === undefined ? undefined : { version: BigInt(version), value }
}

function listOf(reply: unknown): readonly unknown[] {
  if (!Array.isArray(reply))
    throw errors.unavailable(
      'the reply of the server is not a list, so the outcome is unknown; check what answers at this address',
    )
  return reply
}
