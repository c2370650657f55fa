import { isLockError } from '@locks/core/adapter'
import { codeOf, invalid, unavailable } from '../errors.ts'
import type { Put, StoreFactory, Versioned, VersionedStore } from '../versioned-store.ts'
import { DEFAULT_PREFIX, RedisLink } from './redis-client.ts'
import type { RedisStoreOptions } from './redis-client.ts'
import { diagnoseServer, valuesOf } from './redis-server.ts'

/** No record has this version: they begin at the clock's microseconds. */
const NO_VERSION = '0'

/**
 * A versioned store on the TairString commands of Tair, or of a Redis with that module.
 *
 * Only EXCAS replaces a value: `EXSET … VER n` on a missing key succeeds. A key is made by `EXSET … NX`,
 * with a version of our own, since the server's would start at 1 again after a deletion. From there EXCAS
 * counts by one: a key that a failover took back to an older version gets versions that were given out already.
 * No command here carries a ttl.
 *
 * Replies of these commands cannot name what they answer, so each is followed by one that can, in the same write. On a
 * Cluster that checks the connection only as long as neither is sent on to another node.
 */
export function tairStore(options: RedisStoreOptions): StoreFactory {
  const { prefix = DEFAULT_PREFIX } = options
  return () => openTairStore(new RedisLink(withClientUrl(options)), prefix)
}

/** The scheme says which store it is; the client library knows only its own. */
function withClientUrl(options: RedisStoreOptions): RedisStoreOptions {
  return options.url === undefined ? options : { ...options, url: options.url.replace(/^tair:/, 'redis:') }
}

function openTairStore(link: RedisLink, prefix: string): VersionedStore {
  /** A command of the module. Its absence has no error code of its own, so the server is asked for what it knows. */
  async function call(key: string, command: string, ...args: string[]): Promise<unknown> {
    try {
      return await link.callChecked(prefix + key, command, prefix + key, ...args)
    } catch (error) {
      if (!isLockError(error) || codeOf(error.cause) !== 'ERR') throw error
      const known = await link.call('COMMAND', 'INFO', command).catch(() => undefined)
      if (!Array.isArray(known) || known[0] !== null) throw error
      throw invalid(
        `the server has no command ${command}, so no lock can be taken; load the module TairString, or use store redis`,
      )
    }
  }

  async function replace(key: string, value: string, expected: string): Promise<Put | 'missing'> {
    const reply = await call(key, 'EXCAS', value, expected)
    if (reply === -1) return 'missing'
    const [status, there, version] = listOf(reply, 'EXCAS')
    if (status === 'OK') return { version: versionOf(version) }
    return { conflict: true, current: versioned(there, version) }
  }

  async function create(key: string, value: string): Promise<Put> {
    const version = await serverTime(key)
    const reply = await call(key, 'EXSET', value, 'NX', 'ABS', String(version))
    if (reply === 'OK') return { version }
    if (reply !== null) throw misunderstood('EXSET')
    return { conflict: true, current: await get(key) }
  }

  /** In microseconds: a key may be deleted and made again within a millisecond, and clients' clocks differ. */
  async function serverTime(key: string): Promise<bigint> {
    const [seconds, micros] = listOf(await link.callChecked(prefix + key, 'TIME'), 'TIME')
    return versionOf(seconds) * 1_000_000n + versionOf(micros)
  }

  async function ring(key: string): Promise<void> {
    await link.call('PUBLISH', await link.channelOf(key), '')
  }

  async function get(key: string): Promise<Versioned | undefined> {
    const reply = await call(key, 'EXGET')
    if (reply === null) return undefined
    const [value, version] = listOf(reply, 'EXGET')
    return versioned(value, version)
  }

  return {
    scope: 'cluster',
    fencing: 'clock-assisted',
    get,

    async put(key, value, expected): Promise<Put> {
      const { breaks } = link
      // On a key that exists this shows what is there, which EXSET NX would not.
      const replaced = await replace(key, value, expected === undefined ? NO_VERSION : String(expected))
      const put: Put =
        replaced !== 'missing'
          ? replaced
          : expected === undefined
            ? await create(key, value)
            : { conflict: true, current: undefined }
      if ('version' in put) {
        // A bell and no more, behind everybody's back: who misses it looks again by himself.
        void ring(key).catch(() => undefined)
        return put
      }
      if (link.breaks !== breaks && put.current?.value !== value)
        throw unavailable('the connection broke during a put, which may have acted')
      return put
    },

    now: async (key) => Number(await serverTime(key)) / 1_000,

    watch: (key, hint) => link.listen(key, () => hint()),

    values: () => valuesOf(link.keys(), get),

    keeps: 'TairString counts versions in the record alone',

    diagnose: () => diagnoseServer(link),

    close: () => link.close(),
  }
}

function listOf(reply: unknown, command: string): readonly unknown[] {
  if (Array.isArray(reply)) return reply
  throw misunderstood(command)
}

function versioned(value: unknown, version: unknown): Versioned {
  if (typeof value !== 'string') throw misunderstood('the module')
  return { value, version: versionOf(version) }
}

function versionOf(version: unknown): bigint {
  if (typeof version === 'number' && Number.isSafeInteger(version)) return BigInt(version)
  // A client with `stringNumbers` answers so.
  if (typeof version === 'string' && /^\d+$/.test(version)) return BigInt(version)
  throw misunderstood('the module')
}

function misunderstood(what: string): Error {
  return unavailable(`${what} gave an answer that is not understood; has the server the TairString commands?`)
}
