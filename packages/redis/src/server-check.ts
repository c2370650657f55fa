import { LockError } from '@locks/core/adapter'
import type { Primary } from './connection.ts'
import { repliedWith } from './errors.ts'
import { evictionFinding, versionFinding } from './findings.ts'
import type { RedisWarning } from './option-table.ts'
import type { RedisSettings } from './options.ts'

/**
 * Looks once for settings that break locks: a version that cannot, a policy that evicts them. On a Cluster the
 * first answer will do, so that a primary that hangs does not keep a client from the locks of the others; unless
 * something is to be refused, which all have to answer for.
 */
export async function checkServer(
  primaries: readonly Primary[],
  { serverSettings, onWarning }: RedisSettings,
  cluster: boolean,
): Promise<void> {
  const warned = new Set<string>()
  const warn = (code: RedisWarning['code'], message: string): void => {
    if (warned.has(message)) return
    warned.add(message)
    onWarning({ code, message })
  }

  async function look({ ask }: Primary): Promise<void> {
    const info = await infoOf(ask)
    if (info === undefined)
      return warn('LOCKS_REDIS_UNCHECKED', 'Redis does not let this user read its settings (INFO)')
    const version = versionFinding(info, cluster)
    if (version.level === 'danger') throw new LockError('LOCK_UNSUPPORTED', version.message)
    const { level, message, advice } = evictionFinding(info)
    if (level !== 'danger') return
    if (serverSettings === 'refuse') throw new LockError('LOCK_UNSUPPORTED', `${message}; ${advice}`)
    warn('LOCKS_REDIS_EVICTION', `${message}; ${advice}`)
  }

  const looks = primaries.map(look)
  if (serverSettings === 'refuse') await Promise.all(looks)
  else await Promise.any(looks).catch(() => looks[0])
}

/** Undefined when the user may not ask. */
async function infoOf(ask: Primary['ask']): Promise<string | undefined> {
  try {
    return String(await ask('info'))
  } catch (error) {
    if (repliedWith(error, 'NOPERM')) return undefined
    throw error
  }
}
