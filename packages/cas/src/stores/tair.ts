import { isLockError } from '@locks/core/adapter'
import type { Put, StoreFactory, Versioned, VersionedStore } from '@locks/core/adapter'
import { codeOf, errors, uncertainPut } from '../errors.ts'
import { RedisLink } from './redis-client.ts'
import { lastingFinding } from './redis-leftovers.ts'
import type { RedisStoreOptions } from './redis-options.ts'
import { diagnoseServer, valuesOf } from './redis-server.ts'

/** No record has this version: they begin at the clock's microseconds. */
const NO_VERSION = '0'

/**
 * A versioned store on the TairString commands of Tair, or of a Redis with that module.
 *
 * Only EXCAS replaces a value: `EXSET … VER n` on a missing key succeeds. A key is created by `EXSET … NX` with our own
 * version, since the server's would start at 1 again after a deletion. From there EXCAS counts by one: a key that fell
 * back to an older version in a failover gets versions that were returned before. No command here carries a ttl, and no
 * record is dropped: to create one takes two commands, and if the second were held up until the record that another
 * client made meanwhile was dropped, versions would fall.
 *
 * Replies of these commands cannot name their command, so each is followed by one that can, in the same write. On a
 * Cluster that checks the connection only while neither is redirected to another node.
 */
export function tairStore(options: RedisStoreOptions): StoreFactory {
  return () => openTairStore(new RedisLink(withClientUrl(options)))
}

/** The client library does not know the scheme `tair:`. */
function withClientUrl(options: RedisStoreOptions): RedisStoreOptions {
  return options.url === undefined ? options : { ...options, url: options.url.replace(/^tair:/i, 'redis:') }
}

function openTairStore(link: RedisLink): VersionedStore {
  /** A command of the module. The error of an unknown command has no code, so the server is asked which it has. */
  async function call(key: string, command: string, ...args: string[]): Promise<unknown> {
    try {
      return await link.ask(key, command, ...args)
    } catch (error) {
      if (!isLockError(error) || codeOf(error.cause) !== 'ERR') throw error
      const known = await link.call('COMMAND', 'INFO', command).catch(() => undefined)
      if (!Array.isArray(known) || known[0] !== null) throw error
      throw errors.invalid(
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

  /** In microseconds: a key may be deleted and created again within a millisecond, and clients' clocks differ. */
  async function serverTime(key: string): Promise<bigint> {
    const [seconds, micros] = listOf(await link.ask(key, 'TIME'), 'TIME')
    return versionOf(seconds) * 1_000_000n + versionOf(micros)
  }

  async function notify(key: string): Promise<void> {
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
        // Best-effort wake-up; waiters also poll.
        void notify(key).catch(() => undefined)
        return put
      }
      if (link.breaks !== breaks && put.current?.value !== value) throw uncertainPut()
      return put
    },

    now: async (key) => Number(await serverTime(key)) / 1_000,

    watch: (key, hint) => link.watch(key, () => hint()),

    values: () => valuesOf(link.keys(), get),

    keeps: 'TairString counts versions in the record alone',

    diagnose: async () => [...(await diagnoseServer(link)), await lastingFinding(valuesOf(link.keys(), get))],

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
  // From a client with `stringNumbers`.
  if (typeof version === 'string' && /^\d+$/.test(version)) return BigInt(version)
  throw misunderstood('the module')
}

function misunderstood(what: string): Error {
  return errors.unavailable(
    `the reply of ${what} is not understood; does the server support the TairString commands?`,
  )
}
