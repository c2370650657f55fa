import type { LockError } from '@locks/core/adapter'
import { invalid, unsupported } from './errors.ts'

export function notAnAttempt(): LockError {
  return invalid('an attempt id must be <uuid>:<number>; nothing was changed')
}

/**
 * The error of a script that refused to touch a key. It is final: trying again cannot help before a person has looked
 * at the key. Undefined for any other reply.
 */
export function refusalIn(reply: unknown): LockError | undefined {
  if (!Array.isArray(reply) || reply[0] !== 'refused') return undefined
  const [, why, key, kind, size] = reply.map(String)
  const quoted = JSON.stringify(key)
  switch (why) {
    case 'range':
      return unsupported(
        `the fence counter ${quoted} in Redis is above 2^53 - 2, so the next fence could repeat; ` +
          'nothing was granted. Choose another name or prefix, or delete the key if no resource has seen its fences',
      )
    case 'attempt':
      return notAnAttempt()
    default: {
      const what = kind === 'hash' ? `a hash of ${size} ${size === '1' ? 'field' : 'fields'}` : `a ${kind}`
      return invalid(
        `the key ${quoted} in Redis is ${what} that does not belong to a lock of @locks or Redisson; ` +
          'nothing was changed. Choose another lock name or another prefix',
      )
    }
  }
}
