import { Redis } from 'ioredis'
import type { RedisOptions as ConnectionOptions } from 'ioredis'
import { loosen } from './loosen.ts'
import { listOf } from './replies.ts'

/** A Sentinel that takes longer to answer is not waited for. */
const ANSWER_MS = 1_000

/** What one Sentinel says of a primary. */
export interface Opinion {
  /** Higher with every failover. */
  readonly epoch: number
  /** Whether it is replacing the primary. */
  readonly replacing: boolean
  /** The server that clients may use, as `host:port`: the primary, or the replica that is promoted in its place, if any. */
  readonly address: string | undefined
  readonly runId: string | undefined
}

/** How to reach each Sentinel of a client. */
export function sentinelsOf(options: ConnectionOptions): readonly ConnectionOptions[] {
  const { sentinelUsername, sentinelPassword, sentinelTLS, family } = options
  return (options.sentinels ?? []).map(({ host = 'localhost', port = 26_379 }) => ({
    host,
    port,
    ...(family !== undefined && { family }),
    ...(sentinelUsername && { username: sentinelUsername }),
    ...(sentinelPassword && { password: sentinelPassword }),
    ...(sentinelTLS && { tls: sentinelTLS }),
    enableReadyCheck: false,
    maxRetriesPerRequest: null,
    keepAlive: 10_000,
    retryStrategy: (times: number) => Math.min(50 * times, 1_000),
  }))
}

/** Undefined when the Sentinel does not answer. */
export async function opinionOf(options: ConnectionOptions, name: string): Promise<Opinion | undefined> {
  const bounds = { connectTimeout: ANSWER_MS, commandTimeout: ANSWER_MS, maxRetriesPerRequest: 0 }
  const sentinel = new Redis({ ...options, ...bounds, retryStrategy: () => null, replyMapping: 'legacy' })
  loosen(sentinel)
  sentinel.on('error', () => undefined)
  try {
    const primary = fieldsOf(await sentinel.call('SENTINEL', 'MASTER', name))
    const replacing = hasFlag(primary, 'failover_in_progress')
    const replicas = replacing ? listOf(await sentinel.call('SENTINEL', 'SLAVES', name)).map(fieldsOf) : []
    const next = replacing ? replicas.find((replica) => hasFlag(replica, 'promoted')) : primary
    return {
      epoch: Number(primary.get('config-epoch')),
      replacing,
      address: next && `${next.get('ip')}:${next.get('port')}`,
      runId: next?.get('runid'),
    }
  } catch {
    return undefined
  } finally {
    sentinel.disconnect()
  }
}

function hasFlag(fields: ReadonlyMap<string, string>, flag: string): boolean {
  return fields.get('flags')?.split(',').includes(flag) ?? false
}

function fieldsOf(reply: unknown): ReadonlyMap<string, string> {
  const texts = listOf(reply).map(String)
  return new Map(texts.flatMap((text, n) => (n % 2 === 0 ? [[text, texts[n + 1] ?? '']] : [])))
}
