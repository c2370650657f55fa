import { LockError } from '@locks/core/adapter'

export function notAnAttempt(): LockError {
  return new LockError('LOCK_INVALID_ARGUMENT', 'an attempt id must be <uuid>:<number>; nothing was changed')
}

/**
 * What a script found that it must not touch, as an error that is final: trying again cannot help before a person
 * has looked at the key. Undefined for any other reply.
 */
export function refusalIn(reply: unknown): LockError | undefined {
  if (!Array.isArray(reply) || reply[0] !== 'refused') return undefined
  const [, why, key, kind, size] = reply.map(String)
  const quoted = JSON.stringify(key)
  switch (why) {
    case 'range':
      return new LockError(
        'LOCK_UNSUPPORTED',
        `the fence counter ${quoted} in Redis is above 2^53 - 2, so the next fence could repeat; ` +
          'nothing was granted. Choose another name or prefix, or delete the key if no resource has seen its fences',
      )
    case 'attempt':
      return notAnAttempt()
    default: {
      const what = kind === 'hash' ? `a hash of ${size} ${size === '1' ? 'field' : 'fields'}` : `a ${kind}`
      return new LockError(
        'LOCK_INVALID_ARGUMENT',
        `the key ${quoted} in Redis is ${what} that does not belong to a lock of @locks or Redisson; ` +
          'nothing was changed. Choose another lock name or another prefix',
      )
    }
  }
}
