import { LockError, whatIs } from '@locks/core/adapter'
import { isClient } from './drivers/given.ts'
import type { Cluster, Redis } from './drivers/given.ts'
import { wrap } from './drivers/ioredis.ts'
import { errors, failure } from './errors.ts'
import { callScript, keysOf } from './script.ts'
import { guarded } from './scripts.ts'

/** Lets commands through to Redis under fences that only rise. */
export interface RedisGuard {
  /** Shuts out every lower fence. `LOCK_LOST` if a higher one was seen. */
  register(fence: bigint): Promise<void>
  /**
   * Runs one command in the same atomic step that compares the fence. The client's key prefix goes in front of its
   * keys, as in every command. On a Cluster they must share a slot with the guard.
   */
  call(fence: bigint, command: readonly [name: string, ...args: string[]]): Promise<unknown>
}

/**
 * The resource's side of fencing, for resources in Redis itself. `key` keeps the highest fence seen: use one key per
 * lock, and keep it as long as the resources it protects.
 */
export function redisGuard(client: Redis | Cluster, key: string): RedisGuard {
  if (!isClient(client))
    throw errors.invalid(`redisGuard needs a Redis or a Cluster of ioredis, not ${whatIs(client)}`)
  const link = wrap(client)
  const prefix = link.keyPrefix
  const requests = { link, failed: (error: unknown): LockError => failure(error, link) }

  async function run(fence: bigint, command: readonly string[], keys: readonly string[]): Promise<unknown> {
    if (typeof fence !== 'bigint' || fence < 0n) throw errors.invalid('fence must be a bigint of 0 or more')
    const all = keysOf([prefix + key, ...keys])
    const args = [String(fence), ...command]
    const reply = await callScript(requests, guarded, all, args, (answer) => answer)
    if (Array.isArray(reply)) return reply[0]
    if (Number(reply) === -1)
      throw errors.invalid(
        `the guard's key ${JSON.stringify(prefix + key)} holds something that is not a fence`,
      )
    throw new LockError('LOCK_LOST', `stale fence ${fence}: the resource has seen a higher one`)
  }

  return {
    async register(fence) {
      await run(fence, [], [])
    },
    call(fence, [name, ...args]) {
      const command = link.prefixed(name, args)
      return run(fence, [name, ...command.args], command.keys)
    },
  }
}
