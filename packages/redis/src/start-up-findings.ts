import type { Primary } from './connection.ts'
import { errors } from './errors.ts'
import { allowed, evictionFinding, versionFinding } from './findings.ts'
import type { RedisWarning } from './option-table.ts'
import type { RedisSettings } from './options.ts'

/**
 * Looks once for settings that break locks: an old version, a policy that evicts them. On a Cluster the first answer is
 * enough, so that a primary that hangs does not block the locks of the others. With `refuse` all have to answer.
 */
export async function reportFindings(
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
    const info = await allowed(async () => String(await ask('info')), ['NOPERM'])
    if (info === undefined)
      return warn('LOCKS_REDIS_UNCHECKED', 'Redis does not let this user read its settings (INFO)')
    const version = versionFinding(info, cluster)
    if (version.level === 'danger') throw errors.unsupported(version.message)
    const { level, message, advice } = evictionFinding(info)
    if (level !== 'danger') return
    if (serverSettings === 'refuse') throw errors.unsupported(`${message}; ${advice}`)
    warn('LOCKS_REDIS_EVICTION', `${message}; ${advice}`)
  }

  const looks = primaries.map(look)
  if (serverSettings === 'refuse') await Promise.all(looks)
  else await Promise.any(looks).catch(() => looks[0])
}
