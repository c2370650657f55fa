import { createHash } from 'node:crypto'

/** A Lua script and the hash it is called by. */
export interface Script {
  readonly text: string
  readonly sha: string
  /** How a call by that hash begins on the wire. */
  readonly wire: string
}

export function script(text: string): Script {
  const sha = createHash('sha1').update(text).digest('hex')
  return { text, sha, wire: `$7\r\nevalsha\r\n$${sha.length}\r\n${sha}\r\n` }
}

/**
 * In the hash of the lock, beside Redisson's field of the holder: `fence;since;about`. Since when is in µs, and left out
 * when the fence is that time; about the holder there is as little as will do: Redis keeps a hash compact
 * while no value is longer than 64 bytes.
 */
export const HOLD_FIELD = 'hold'

/** In the hash of a lock of ours while somebody may be in its queue, so that a release need not look. */
export const QUEUE_FIELD = 'queue'
