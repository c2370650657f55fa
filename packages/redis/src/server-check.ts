import { LockError } from '@locks/core'
import type { Connection } from './connection.ts'
import type { RedisSettings } from './options.ts'

/** `SET … GET` came with 6.2, sharded channels with 7.0. */
const MIN_VERSION = { single: [6, 2], cluster: [7, 0] } as const

/** Looks once for settings that break locks: a version that cannot, a policy that evicts them. */
export async function checkServer(
  connection: Connection,
  { serverSettings, onWarning }: RedisSettings,
): Promise<void> {
  if (serverSettings === 'ignore') return
  let infos: readonly string[]
  try {
    infos = await connection.info()
  } catch (error) {
    if (!mayNot(error)) throw error
    onWarning({
      code: 'LOCKS_REDIS_UNCHECKED',
      message: 'Redis does not let this user read its settings (INFO)',
    })
    return
  }
  const [major, minor] = connection.cluster ? MIN_VERSION.cluster : MIN_VERSION.single
  for (const info of infos) {
    const version = fieldOf(info, 'redis_version') ?? ''
    const [itsMajor = 0, itsMinor = 0] = version.split('.').map(Number)
    if (itsMajor < major || (itsMajor === major && itsMinor < minor))
      throw new LockError('LOCK_UNSUPPORTED', `Redis ${version} is too old: locks need ${major}.${minor}`)
    const policy = fieldOf(info, 'maxmemory_policy') ?? 'noeviction'
    if (policy === 'noeviction') continue
    const message = `Redis may evict locks and fences: maxmemory-policy is ${policy}, and should be noeviction`
    if (serverSettings === 'refuse') throw new LockError('LOCK_UNSUPPORTED', message)
    onWarning({ code: 'LOCKS_REDIS_EVICTION', message })
  }
}

function fieldOf(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
}

function mayNot(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof Error && 'code' in cause && cause.code === 'NOPERM'
}
