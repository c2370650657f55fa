import { keysOf } from './script.ts'
import type { Keys } from './script.ts'

/** The keys and channels of one lock: Redisson's, and our queue and channel beside them. */
export interface Layout {
  readonly lock: string
  readonly token: string
  readonly queue: string
  /** The three of them. */
  readonly keys: Keys
  /** The channel on which Redisson publishes a release. */
  readonly redisson: string
  /** The channel of grants, without the client id that ends it. */
  readonly grants: string
}

/** On a Cluster, names whose keys do not share a slot in Redisson's layout are encoded under this. */
const ENCODED = 'locks_name:{'

/**
 * As Redisson names its keys. There a name with a brace may not share its slot with its token. On a Cluster Redisson
 * cannot use such a name, and we encode it; on one server it does not matter.
 */
export function layoutOf(name: string, cluster: boolean): Layout {
  const lock = cluster && !sharesSlot(name) ? `${ENCODED}${encodeURIComponent(name)}}` : name
  return layoutBeside(lock, cluster)
}

/** The names that go with the key of a lock. */
export function layoutBeside(lock: string, cluster: boolean): Layout {
  const token = beside('redisson_lock_token', lock)
  const queue = ownBeside('locks_queue', lock)
  return {
    lock,
    token,
    queue,
    keys: keysOf([lock, token, queue]),
    redisson: beside('redisson_lock__channel', lock),
    grants: cluster ? `${ownBeside('locks_grants', lock)}:` : 'locks_grants:',
  }
}

/** The name of the lock under `key`, if it is one. */
export function nameOf(key: string, cluster: boolean): string | undefined {
  if (!cluster || sharesSlot(key)) return key
  const name = key.startsWith(ENCODED) ? decoded(key.slice(ENCODED.length, -1)) : undefined
  return name !== undefined && layoutOf(name, cluster).lock === key ? name : undefined
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** As Redisson does it: `x` and `{x}` share it, which a counter or a channel may be. */
function beside(prefix: string, lock: string): string {
  return lock.includes('{') ? `${prefix}:${lock}` : `${prefix}:{${lock}}`
}

/** For keys that no two locks may share. A brace behind the first colon is always ours. */
function ownBeside(prefix: string, lock: string): string {
  return lock.includes('{') ? `${prefix}::${lock}` : `${prefix}:{${lock}}`
}

function sharesSlot(name: string): boolean {
  if (name.startsWith(ENCODED)) return false
  const open = name.indexOf('{')
  // Without a tag the whole name counts, and goes into braces: a closing one in it would end the tag early.
  return open < 0 ? !name.includes('}') : name.indexOf('}', open + 1) > open + 1
}
