import { LockError } from '@locks/core'
import type { Connection } from './connection.ts'
import { repliedWith } from './errors.ts'
import { evictionFinding, versionFinding } from './findings.ts'
import type { RedisSettings } from './options.ts'

/** Looks once for settings that break locks: a version that cannot, a policy that evicts them. */
export async function checkServer(
  connection: Connection,
  { serverSettings, onWarning }: RedisSettings,
): Promise<void> {
  if (serverSettings === 'ignore') return
  let infos: readonly string[]
  try {
    const primaries = await connection.primaries()
    infos = await Promise.all(primaries.map(async ({ ask }) => String(await ask('info'))))
  } catch (error) {
    if (!repliedWith(error, 'NOPERM')) throw error
    onWarning({
      code: 'LOCKS_REDIS_UNCHECKED',
      message: 'Redis does not let this user read its settings (INFO)',
    })
    return
  }
  const evictions = new Set<string>()
  for (const info of infos) {
    const version = versionFinding(info, connection.cluster)
    if (version.level === 'danger') throw new LockError('LOCK_UNSUPPORTED', version.message)
    const { level, message, advice } = evictionFinding(info)
    if (level === 'danger') evictions.add(`${message}; ${advice}`)
  }
  for (const message of evictions) {
    if (serverSettings === 'refuse') throw new LockError('LOCK_UNSUPPORTED', message)
    onWarning({ code: 'LOCKS_REDIS_EVICTION', message })
  }
}
