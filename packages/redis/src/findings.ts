import type { Finding } from '@locks/core/adapter'

/** `SET … GET` came with 6.2, sharded channels with 7.0. */
const MIN_VERSION = { single: [6, 2], cluster: [7, 0] } as const

// What single settings of a server mean for locks. The check at the start and `diagnose` both ask here.

/** One field of what INFO says. */
export function fieldOf(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
}

export function versionFinding(info: string, cluster: boolean): Finding {
  const [major, minor] = cluster ? MIN_VERSION.cluster : MIN_VERSION.single
  const version = fieldOf(info, 'redis_version') ?? 'unknown'
  const [itsMajor = 0, itsMinor = 0] = version.split('.').map(Number)
  if (itsMajor > major || (itsMajor === major && itsMinor >= minor))
    return { check: 'version', level: 'ok', message: `Redis ${version}` }
  return {
    check: 'version',
    level: 'danger',
    message: `Redis ${version} is too old: locks need ${major}.${minor}`,
    advice: `use Redis ${major}.${minor} or newer`,
  }
}

export function evictionFinding(info: string): Finding {
  const policy = fieldOf(info, 'maxmemory_policy') ?? 'noeviction'
  const check = 'eviction-policy'
  if (policy === 'noeviction') return { check, level: 'ok', message: 'nothing is evicted (noeviction)' }
  const message = `Redis may evict locks and fences: maxmemory-policy is ${policy}`
  return { check, level: 'danger', message, advice: 'set maxmemory-policy to noeviction' }
}

/** `settings` as CONFIG has them; undefined when it may not be asked. */
export function persistenceFinding(info: string, settings: ReadonlyMap<string, string> | undefined): Finding {
  const check = 'persistence'
  const advice = 'set appendonly yes and appendfsync always, if locks must survive a restart of the server'
  if (fieldOf(info, 'aof_enabled') !== '1') {
    const saves = settings?.get('save')
    const kept = saves === undefined || saves === '' ? '' : ', but for what the last snapshot has'
    return {
      check,
      level: 'danger',
      message: `a restart of the server forgets who holds what${kept}`,
      advice,
    }
  }
  const fsync = settings?.get('appendfsync')
  if (fsync === 'always')
    return { check, level: 'ok', message: 'every grant is on disk (appendfsync always)' }
  const message =
    fsync === undefined
      ? 'appendonly is on, appendfsync could not be read'
      : `a crash of the server may lose its last grants: appendfsync is ${fsync}`
  return { check, level: 'warning', message, advice }
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
    return {
      check,
      level: 'warning',
      message: `no grant can succeed: waitForReplicas is ${waitForReplicas}, and the server has ${several}`,
      advice: 'start the missing replicas, or lower waitForReplicas',
    }
  if (replicas === 0)
    return { check, level: 'ok', message: 'no replicas, so no failover that could lose a grant' }
  if (waitForReplicas > 0)
    return { check, level: 'ok', message: `${several}; a grant waits for ${waitForReplicas}` }
  const bounded = Number(settings?.get('min-replicas-to-write') ?? 0) > 0
  return {
    check,
    level: bounded ? 'warning' : 'danger',
    message: `${several}; a failover may lose grants that were not replicated${bounded ? ', within min-replicas-max-lag' : ''}`,
    advice: 'use waitForReplicas, and let resources check fences',
  }
}

/** How a client behind Sentinels learns that its primary was replaced. */
export function failoverFinding(detects: boolean): Finding {
  const check = 'failover-detection'
  if (detects)
    return { check, level: 'ok', message: 'the client leaves a primary as soon as Sentinels replace it' }
  return {
    check,
    level: 'warning',
    message:
      'after a planned failover the client stays connected to the old primary for about ten seconds: no lease is ' +
      'renewed and no lock is granted meanwhile',
    advice: 'make the client with failoverDetector: true',
  }
}
