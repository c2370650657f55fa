import { danger, inOneLine, ok, warning } from '@locks/core/adapter'
import type { Finding } from '@locks/core/adapter'
import type { Primary } from './connection.ts'
import { errors, repliedWith } from './errors.ts'
import type { RedisWarning } from './option-table.ts'
import type { RedisSettings } from './options.ts'

// What the settings of a server mean for locks, for the look at start-up and for `diagnose`.

/** `SET … GET` came with 6.2, sharded channels with 7.0. */
const MIN_VERSION = { single: [6, 2], cluster: [7, 0] } as const

/** Undefined if the server replies with one of these codes. Rejects if it is out of reach. */
export async function allowed<T>(
  ask: () => Promise<T>,
  // A command that a service does not offer is an unknown one.
  refusals: readonly string[] = ['NOPERM', 'ERR'],
): Promise<T | undefined> {
  try {
    return await ask()
  } catch (error) {
    if (repliedWith(error, ...refusals)) return undefined
    throw error
  }
}

/** One field of the reply to INFO. */
export function fieldOf(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
}

export function versionFinding(info: string, cluster: boolean): Finding {
  const [major, minor] = cluster ? MIN_VERSION.cluster : MIN_VERSION.single
  const version = fieldOf(info, 'redis_version') ?? 'unknown'
  const [itsMajor = 0, itsMinor = 0] = version.split('.').map(Number)
  if (itsMajor > major || (itsMajor === major && itsMinor >= minor)) return ok('version', `Redis ${version}`)
  const message = `Redis ${version} is too old: locks need ${major}.${minor}`
  return danger('version', message, `use Redis ${major}.${minor} or newer`)
}

export function evictionFinding(info: string): Finding {
  const policy = fieldOf(info, 'maxmemory_policy')
  const check = 'eviction-policy'
  if (policy === 'noeviction') return ok(check, 'nothing is evicted (noeviction)')
  const advice = 'set maxmemory-policy to noeviction'
  if (policy === undefined) return warning(check, 'the server does not report its maxmemory-policy', advice)
  return danger(check, `Redis may evict locks and fences: maxmemory-policy is ${policy}`, advice)
}

/** `settings` from CONFIG GET; undefined if this user may not call it. */
export function persistenceFinding(info: string, settings: ReadonlyMap<string, string> | undefined): Finding {
  const check = 'persistence'
  const advice = 'set appendonly yes and appendfsync always, if locks must survive a restart of the server'
  if (fieldOf(info, 'aof_enabled') !== '1') {
    const saves = settings?.get('save')
    const kept = saves === undefined || saves === '' ? '' : ', except those in the last snapshot'
    return danger(check, `a restart of the server loses the holders of all locks${kept}`, advice)
  }
  const fsync = settings?.get('appendfsync')
  if (fsync === 'always') return ok(check, 'every grant is on disk (appendfsync always)')
  const message =
    fsync === undefined
      ? 'appendonly is on, appendfsync could not be read'
      : `a crash of the server may lose its last grants: appendfsync is ${fsync}`
  return warning(check, message, advice)
}

export function replicationFinding(
  info: string,
  settings: ReadonlyMap<string, string> | undefined,
  waitForReplicas: number,
): Finding {
  const check = 'replication'
  const replicas = Number(fieldOf(info, 'connected_slaves') ?? 0)
  const several = `${replicas} ${replicas === 1 ? 'replica' : 'replicas'}`
  if (waitForReplicas > replicas)
    return warning(
      check,
      `no grant can succeed: waitForReplicas is ${waitForReplicas}, and the server has ${several}`,
      'start the missing replicas, or lower waitForReplicas',
    )
  if (replicas === 0) return ok(check, 'no replicas, so no failover that could lose a grant')
  if (waitForReplicas > 0) return ok(check, `${several}; a grant waits for ${waitForReplicas}`)
  const message = `${several}; a failover may lose grants that were not replicated`
  const advice = 'use waitForReplicas, and let resources check fences'
  return Number(settings?.get('min-replicas-to-write') ?? 0) > 0
    ? warning(check, `${message}, within min-replicas-max-lag`, advice)
    : danger(check, message, advice)
}

/** How a client behind Sentinels learns that its primary was replaced. */
export function failoverFinding(detects: boolean): Finding {
  const check = 'failover-detection'
  if (detects) return ok(check, 'the client leaves a primary as soon as Sentinels replace it')
  return warning(
    check,
    'after a planned failover the client stays connected to the old primary for about ten seconds: no lease is ' +
      'renewed and no lock is granted meanwhile',
    'create the client with failoverDetector: true',
  )
}

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
    const eviction = evictionFinding(info)
    if (eviction.level !== 'danger') return
    if (serverSettings === 'refuse') throw errors.unsupported(inOneLine(eviction))
    warn('LOCKS_REDIS_EVICTION', inOneLine(eviction))
  }

  const looks = primaries.map(look)
  if (serverSettings === 'refuse') await Promise.all(looks)
  else await Promise.any(looks).catch(() => looks[0])
}
